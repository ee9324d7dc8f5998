"""Writes layers that bring elements together along dims."""

from __future__ import annotations

import torch

from trtdiag.engine.tensorrt.emission import Outputs, Step, axes_mask
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers import Cumulative, MatrixMultiply, Normalization, Reduce, SoftMax


@emitter
def reduce(step: Step, layer: Reduce) -> Outputs:
    """One layer."""
    operation = step.dialect.member(layer.op)
    return step.place(step.definition.add_reduce(step.tensor(0), operation, axes_mask(layer.axes), layer.keep_dims))


@emitter
def softmax(step: Step, layer: SoftMax) -> Outputs:
    """One layer."""
    return step.place(step.definition.add_softmax(step.tensor(0)), axes=1 << layer.axis)


@emitter
def normalization(step: Step, layer: Normalization) -> Outputs:
    """One layer."""
    x, scale, bias = step.tensors
    made = step.dialect.add_normalization(step.definition, x, scale, bias, axes_mask(layer.axes))
    return step.place(made, epsilon=layer.epsilon, num_groups=layer.groups)


@emitter
def cumulative(step: Step, layer: Cumulative) -> Outputs:
    """One layer, whose axis is a constant input."""
    axis = step.constant(torch.tensor(layer.axis, dtype=torch.int32))
    operation = step.dialect.trt.CumulativeOperation.SUM
    made = step.definition.add_cumulative(step.tensor(0), axis, operation, layer.exclusive, layer.reverse)
    return step.place(made)


@emitter
def matrix_multiply(step: Step, layer: MatrixMultiply) -> Outputs:
    """One layer."""
    first, second = step.dialect.member(layer.op0), step.dialect.member(layer.op1)
    return step.place(step.definition.add_matrix_multiply(step.tensor(0), first, step.tensor(1), second))
