"""Writes Gather."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.gather import Gather, GatherMode


@emitter(Gather)
def gather(step: Step, layer: Gather) -> Outputs:
    """One layer."""
    made = step.definition.add_gather_v2(step.tensor(0), step.tensor(1), step.dialect.member(layer.mode))
    outputs = step.place(made)
    if layer.mode is not GatherMode.ND:
        made.axis = layer.axis
    made.num_elementwise_dims = layer.elementwise_dims
    return outputs
