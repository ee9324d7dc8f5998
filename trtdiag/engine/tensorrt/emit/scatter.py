"""Writes Scatter."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.scatter import Scatter, ScatterMode


@emitter(Scatter)
def scatter(step: Step, layer: Scatter) -> Outputs:
    """One layer."""
    mode = step.dialect.member(layer.mode)
    made = step.definition.add_scatter(step.tensor(0), step.tensor(1), step.tensor(2), mode)
    outputs = step.place(made)
    if layer.mode is ScatterMode.ELEMENT:
        made.axis = layer.axis
    return outputs
