"""Choices by a condition: where, masked_fill, maximum, minimum, clamp."""

from __future__ import annotations

from math import inf, isnan

import torch

from trtdiag.convert import Call, converter, refuse
from trtdiag.convert.layer_writers.elementary import is_nan
from trtdiag.network import DType, Value
from trtdiag.network.layers import ActivationType, ElementWiseOperation as Op


@converter
def where(call: Call) -> Value:
    """aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor
    aten::where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor
    aten::where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor
    aten::where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor
    aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor
    aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor
    """
    names = ("condition", "self", "other") if call.op_name == "where" else ("mask", "value", "self")
    condition, then, otherwise = names
    dtype = call.out.dtype
    chosen = call.write.cast(call.tensor(condition), DType.BOOL)
    return call.write.select(chosen, call.operand(then, dtype), call.operand(otherwise, dtype))


@converter
def extreme(call: Call) -> Value:
    """aten::maximum(Tensor self, Tensor other) -> Tensor
    aten::minimum(Tensor self, Tensor other) -> Tensor

    Beside NaN the other operand on TensorRT 8.6.

    aten::max.other(Tensor self, Tensor other) -> Tensor
    aten::min.other(Tensor self, Tensor other) -> Tensor
    aten::fmax(Tensor self, Tensor other) -> Tensor
    aten::fmin(Tensor self, Tensor other) -> Tensor
    """
    dtype, write, name = call.out.dtype, call.write, call.op_name
    op = Op.MAX if "max" in name else Op.MIN
    left, right = call.operand("self", dtype), call.operand("other", dtype)
    if dtype is DType.BOOL:
        return write.elementwise(Op.OR if op is Op.MAX else Op.AND, left, right)
    result = write.elementwise(op, left, right)
    if not (name in ("fmax", "fmin") and dtype.is_float):
        return result
    result = write.select(is_nan(write, right), left, result)
    return write.select(is_nan(write, left), right, result)


@converter
def clamp(call: Call) -> Value:
    """aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor

    NaN gives a bound on TensorRT 8.6.

    aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor
    aten::clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor
    aten::clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor
    aten::clamp_min(Tensor self, Scalar min) -> Tensor
    aten::clamp_min.Tensor(Tensor self, Tensor min) -> Tensor
    aten::clamp_max(Tensor self, Scalar max) -> Tensor
    aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor
    """
    # ``min(max(x, low), high)``: where the bounds cross, the upper one is the result, as in PyTorch.
    dtype, write = call.out.dtype, call.write
    x = call.operand("self", dtype)
    least, most = (call.number(name) if call.is_number(name) else None for name in ("min", "max"))
    if any(number is not None and isnan(number) for number in (least, most)):
        raise refuse("nan-bound", "one of its bounds is NaN")
    if dtype.is_float and least is not None and most is not None and -inf < least <= most < inf:
        return write.activation(ActivationType.CLIP, x, float(least), float(most))
    upwards, downwards = (Op.OR, Op.AND) if dtype is DType.BOOL else (Op.MAX, Op.MIN)
    for name, number, op, never in (("min", least, upwards, -inf), ("max", most, downwards, inf)):
        if call.has(name) and number != never:
            x = write.elementwise(op, x, call.operand(name, dtype))
    return x


@converter
def nan_to_num(call: Call) -> Value:
    """aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"""
    x, write = call.tensor("self"), call.write
    if not x.dtype.is_float:
        return x
    greatest = float(torch.finfo(x.dtype.torch).max)
    result = x
    for positive, name in ((True, "posinf"), (False, "neginf")):
        number = call.number_or_none(name)
        bound = (greatest if positive else -greatest) if number is None else float(number)
        result = write.select(x.eq(inf if positive else -inf), write.scalar(bound, x), result)
    nan = call.number_or_none("nan")
    return write.select(is_nan(write, x), write.scalar(0.0 if nan is None else nan, x), result)
