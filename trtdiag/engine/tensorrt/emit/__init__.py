"""One function for each kind of layer, from its attributes to TensorRT's layers."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Emitter
from trtdiag.engine.tensorrt.emit import attention, elementwise, indexing, loops, reductions, shapes, windows
from trtdiag.engine.tensorrt.emit.registry import REGISTERED
from trtdiag.network import Layer

EMITTERS: dict[type[Layer], Emitter] = REGISTERED
"""The emitter of each kind; Constant has none: it is written where it is read."""
