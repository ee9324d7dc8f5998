"""Writes ElementWise and Select."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.elementwise import ElementWise, Select


@emitter(ElementWise)
def elementwise(step: Step, layer: ElementWise) -> Outputs:
    """One layer."""
    operation = step.dialect.member(layer.op)
    return step.place(step.definition.add_elementwise(step.tensor(0), step.tensor(1), operation))


@emitter(Select)
def select(step: Step, layer: Select) -> Outputs:
    """One layer."""
    del layer
    return step.place(step.definition.add_select(step.tensor(0), step.tensor(1), step.tensor(2)))
