"""Writes Normalization."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step, axes_mask
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.normalization import Normalization


@emitter(Normalization)
def normalization(step: Step, layer: Normalization) -> Outputs:
    """One layer."""
    axes = axes_mask(layer.axes)
    made = step.dialect.add_normalization(step.definition, step.tensor(0), step.tensor(1), step.tensor(2), axes)
    outputs = step.place(made)
    made.epsilon = layer.epsilon
    made.num_groups = layer.groups
    return outputs
