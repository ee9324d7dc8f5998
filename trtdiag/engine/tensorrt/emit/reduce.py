"""Writes Reduce."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step, axes_mask
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.reduce import Reduce


@emitter(Reduce)
def reduce(step: Step, layer: Reduce) -> Outputs:
    """One layer."""
    operation = step.dialect.member(layer.op)
    return step.place(step.definition.add_reduce(step.tensor(0), operation, axes_mask(layer.axes), layer.keep_dims))
