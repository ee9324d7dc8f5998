"""Writes Normalization."""

from __future__ import annotations

import torch

from trtdiag.engine.tensorrt.emission import Outputs, Step, axes_mask
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.elementwise import ElementWiseOperation
from trtdiag.network.layers.normalization import Normalization


@emitter(Normalization)
def normalization(step: Step, layer: Normalization) -> Outputs:
    """One layer; with groups on 8.6, whose layer has one scale a group, scale and bias of the channels follow."""
    if layer.groups == 1 or step.dialect.strongly_typed:
        return _normalized(step, layer, step.tensor(1), step.tensor(2))
    like = [1, layer.groups] + [1] * (step.type(0).rank - 2)
    dtype = step.type(0).dtype.torch
    one, nothing = (step.constant(torch.full(like, value, dtype=dtype)) for value in (1.0, 0.0))
    y = _normalized(step, layer, one, nothing)[0]
    for index, operation in ((1, ElementWiseOperation.PROD), (2, ElementWiseOperation.SUM)):
        y = step.place(step.definition.add_elementwise(y, step.tensor(index), step.dialect.member(operation)))[0]
    return (y,)


def _normalized(step: Step, layer: Normalization, scale: object, bias: object) -> Outputs:
    made = step.dialect.add_normalization(step.definition, step.tensor(0), scale, bias, axes_mask(layer.axes))
    outputs = step.place(made)
    made.epsilon = layer.epsilon
    made.num_groups = layer.groups
    return outputs
