"""Writes Shuffle."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network import Given
from trtdiag.network.layers.shuffle import Shuffle


@emitter(Shuffle)
def shuffle(step: Step, layer: Shuffle) -> Outputs:
    """One layer; what is not asked for is not set."""
    made = step.definition.add_shuffle(step.tensor(0))
    outputs = step.place(made)
    permutation = step.dialect.trt.Permutation
    if layer.first is not None:
        made.first_transpose = permutation(list(layer.first))
    made.zero_is_placeholder = layer.zero_is_placeholder
    if isinstance(layer.reshape, Given):
        made.set_input(1, step.tensor(1))
    elif layer.reshape is not None:
        made.reshape_dims = layer.reshape
    if layer.second is not None:
        made.second_transpose = permutation(list(layer.second))
    return outputs
