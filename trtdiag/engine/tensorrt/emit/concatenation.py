"""Writes Concatenation."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.concatenation import Concatenation


@emitter(Concatenation)
def concatenation(step: Step, layer: Concatenation) -> Outputs:
    """One layer."""
    made = step.definition.add_concatenation([step.tensor(index) for index in range(step.count)])
    outputs = step.place(made)
    made.axis = layer.axis
    return outputs
