"""Writes RotaryEmbedding."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.rotary_embedding import RotaryEmbedding


@emitter(RotaryEmbedding)
def rotary_embedding(step: Step, layer: RotaryEmbedding) -> Outputs:
    """One layer; positions are a further input of it."""
    x, cos, sin = (step.tensor(index) for index in range(3))
    made = step.definition.add_rotary_embedding(x, cos, sin, layer.interleaved, layer.rotary_embedding_dim)
    outputs = step.place(made)
    if step.count == 4:
        made.set_input(3, step.tensor(3))
    return outputs
