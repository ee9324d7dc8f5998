"""Writes SoftMax."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.softmax import SoftMax


@emitter(SoftMax)
def softmax(step: Step, layer: SoftMax) -> Outputs:
    """One layer."""
    made = step.definition.add_softmax(step.tensor(0))
    outputs = step.place(made)
    made.axes = 1 << layer.axis
    return outputs
