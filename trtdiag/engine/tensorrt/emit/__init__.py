"""One function for each kind of layer, from its attributes to TensorRT's layers."""

from __future__ import annotations

from importlib import import_module

from trtdiag.engine.tensorrt.emission import Emitter
from trtdiag.engine.tensorrt.emit.registry import REGISTERED
from trtdiag.network import Layer

_FAMILIES = (
    "activation",
    "attention",
    "cast",
    "concatenation",
    "constant",
    "convolution",
    "cumulative",
    "elementwise",
    "gather",
    "grid_sample",
    "kv_cache_update",
    "matmul",
    "non_zero",
    "normalization",
    "one_hot",
    "pooling",
    "quantize",
    "reduce",
    "resize",
    "rotary_embedding",
    "scatter",
    "shuffle",
    "slice",
    "softmax",
    "squeeze",
    "topk",
    "unary",
)
for _family in _FAMILIES:
    import_module(f"{__name__}.{_family}")

EMITTERS: dict[type[Layer], Emitter] = dict(REGISTERED)
"""The emitter of each kind; Constant has none: it is written where it is read."""
