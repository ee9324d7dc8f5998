"""Writes Pooling."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.pooling import Pooling, PoolingType


@emitter(Pooling)
def pooling(step: Step, layer: Pooling) -> Outputs:
    """One layer."""
    made = step.definition.add_pooling_nd(step.tensor(0), step.dialect.member(layer.op), layer.window)
    outputs = step.place(made)
    made.stride_nd = layer.stride
    made.pre_padding = layer.pre_padding
    made.post_padding = layer.post_padding
    made.padding_mode = step.dialect.member(layer.padding_mode)
    if layer.op is PoolingType.AVERAGE:
        made.average_count_excludes_padding = layer.average_count_excludes_padding
    return outputs
