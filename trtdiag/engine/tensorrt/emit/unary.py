"""Writes Unary."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.unary import Unary


@emitter(Unary)
def unary(step: Step, layer: Unary) -> Outputs:
    """One layer."""
    return step.place(step.definition.add_unary(step.tensor(0), step.dialect.member(layer.op)))
