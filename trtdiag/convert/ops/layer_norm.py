"""Normalization over the last dims."""

from __future__ import annotations

import torch

from trtdiag.convert import Call, converter
from trtdiag.convert.layer_writers.normalization import normalized
from trtdiag.convert.layer_writers.statistics import as_outputs, moments, reciprocal_deviation
from trtdiag.network import DType, Value
from trtdiag.network.layers.reduce import ReduceOperation


@converter
def layer_norm(call: Call) -> list[Value | None]:
    """aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None,
        float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor
    aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps)
        -> (Tensor, Tensor, Tensor)
    """
    write, x, epsilon = call.write, call.tensor("input"), float(call.number("eps"))
    axes = _axes(call, x)
    shape = [1 if axis not in axes else size for axis, size in enumerate(x.shape)]
    given = (call.tensor_or_none(name) for name in ("weight", "bias"))
    scale, bias = (None if value is None else write.with_rank(value, x.rank) for value in given)
    y = normalized(write, x, axes, epsilon, scale, bias, shape=shape)
    if not any(call.outputs[1:]):
        return [y]
    mean, variance = moments(write, write.cast(x, DType.FLOAT32), axes)
    return [y, *as_outputs(call, 1, mean, reciprocal_deviation(write, variance, epsilon))]


@converter
def rms_norm(call: Call) -> list[Value | None]:
    """aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor
    aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)
    """
    # The input divided by the root of its mean square, in float32 throughout, and the reciprocal of that root.
    write, x = call.write, call.tensor("input")
    weight = call.tensor_or_none("weight")
    # Without eps PyTorch takes that of the type it computes in.
    eps = call.number_or_none("eps")
    epsilon = torch.finfo(torch.float32).eps if eps is None else float(eps)
    wide = write.cast(x, DType.FLOAT32)
    squares = write.reduce(ReduceOperation.AVG, wide * wide, _axes(call, x), keep_dims=True)
    reciprocal = reciprocal_deviation(write, squares, epsilon)
    y = wide * reciprocal
    if weight is not None:
        y = y * write.cast(weight, DType.FLOAT32)
    return [write.cast(y, call.out.dtype), *as_outputs(call, 1, reciprocal)]


def _axes(call: Call, x: Value) -> tuple[int, ...]:
    return tuple(range(x.rank - len(call.sizes("normalized_shape")), x.rank))
