"""Choices by a condition: where, masked_fill, maximum, minimum, clamp."""

from __future__ import annotations

from math import inf, isnan

import torch

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.elementary import is_infinite, is_nan
from trtdiag.convert.promotion import computed
from trtdiag.convert.refusal import refuse
from trtdiag.convert.registry import converter
from trtdiag.network.builder import Value
from trtdiag.network.dtype import DType
from trtdiag.network.layers.activation import ActivationType
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op


@converter
def where_tensors(call: Call) -> Value:
    """aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"""
    return _where(call, "condition", "self", "other")


@converter
def where_scalar_self(call: Call) -> Value:
    """aten::where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor"""
    return _where(call, "condition", "self", "other")


@converter
def where_scalar_other(call: Call) -> Value:
    """aten::where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor"""
    return _where(call, "condition", "self", "other")


@converter
def where_scalars(call: Call) -> Value:
    """aten::where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor"""
    return _where(call, "condition", "self", "other")


@converter
def masked_fill_scalar(call: Call) -> Value:
    """aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor"""
    return _where(call, "mask", "value", "self")


@converter
def masked_fill_tensor(call: Call) -> Value:
    """aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor"""
    return _where(call, "mask", "value", "self")


@converter
def maximum(call: Call) -> Value:
    """aten::maximum(Tensor self, Tensor other) -> Tensor

    Beside NaN the other operand on TensorRT 8.6.
    """
    return _extreme(call, Op.MAX)


@converter
def minimum(call: Call) -> Value:
    """aten::minimum(Tensor self, Tensor other) -> Tensor

    Beside NaN the other operand on TensorRT 8.6.
    """
    return _extreme(call, Op.MIN)


@converter
def max_other(call: Call) -> Value:
    """aten::max.other(Tensor self, Tensor other) -> Tensor"""
    return _extreme(call, Op.MAX)


@converter
def min_other(call: Call) -> Value:
    """aten::min.other(Tensor self, Tensor other) -> Tensor"""
    return _extreme(call, Op.MIN)


@converter
def fmax(call: Call) -> Value:
    """aten::fmax(Tensor self, Tensor other) -> Tensor"""
    return _extreme(call, Op.MAX, ignore_nan=True)


@converter
def fmin(call: Call) -> Value:
    """aten::fmin(Tensor self, Tensor other) -> Tensor"""
    return _extreme(call, Op.MIN, ignore_nan=True)


@converter
def clamp(call: Call) -> Value:
    """aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor

    NaN gives a bound on TensorRT 8.6.
    """
    return _clamped(call, "min", "max")


@converter
def clamp_tensor(call: Call) -> Value:
    """aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor"""
    return _clamped(call, "min", "max")


@converter
def clip(call: Call) -> Value:
    """aten::clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor"""
    return _clamped(call, "min", "max")


@converter
def clip_tensor(call: Call) -> Value:
    """aten::clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor"""
    return _clamped(call, "min", "max")


@converter
def clamp_min(call: Call) -> Value:
    """aten::clamp_min(Tensor self, Scalar min) -> Tensor"""
    return _clamped(call, "min", None)


@converter
def clamp_min_tensor(call: Call) -> Value:
    """aten::clamp_min.Tensor(Tensor self, Tensor min) -> Tensor"""
    return _clamped(call, "min", None)


@converter
def clamp_max(call: Call) -> Value:
    """aten::clamp_max(Tensor self, Scalar max) -> Tensor"""
    return _clamped(call, None, "max")


@converter
def clamp_max_tensor(call: Call) -> Value:
    """aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor"""
    return _clamped(call, None, "max")


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
        result = write.select(is_infinite(write, x, positive=positive), write.scalar(bound, x), result)
    nan = call.number_or_none("nan")
    return write.select(is_nan(write, x), write.scalar(0.0 if nan is None else nan, x), result)


def _where(call: Call, condition: str, then: str, otherwise: str) -> Value:
    dtype = call.out.dtype
    chosen = call.write.cast(call.tensor(condition), DType.BOOL)
    return call.write.select(chosen, call.operand(then, dtype), call.operand(otherwise, dtype))


def _extreme(call: Call, op: Op, *, ignore_nan: bool = False) -> Value:
    dtype, write = computed(call), call.write
    left, right = call.operand("self", dtype), call.operand("other", dtype)
    if dtype is DType.BOOL:
        return write.elementwise(Op.OR if op is Op.MAX else Op.AND, left, right)
    result = write.elementwise(op, left, right)
    if not (ignore_nan and dtype.is_float):
        return result
    result = write.select(is_nan(write, right), left, result)
    return write.select(is_nan(write, left), right, result)


def _clamped(call: Call, low: str | None, high: str | None) -> Value:
    """``min(max(x, low), high)``: where the bounds cross, the upper one is the result, as in PyTorch."""
    dtype, write = computed(call), call.write
    x = call.operand("self", dtype)
    numbers = [call.number(name) if name is not None and call.is_number(name) else None for name in (low, high)]
    if any(number is not None and isnan(number) for number in numbers):
        raise refuse("nan-bound", "one of its bounds is NaN")
    least, most = numbers
    if dtype.is_float and least is not None and most is not None and -inf < least <= most < inf:
        return write.activation(ActivationType.CLIP, x, float(least), float(most))
    upwards, downwards = (Op.OR, Op.AND) if dtype is DType.BOOL else (Op.MAX, Op.MIN)
    for name, number, op, never in ((low, least, upwards, -inf), (high, most, downwards, inf)):
        if name is None or not call.has(name) or number == never:
            continue
        x = write.elementwise(op, x, call.operand(name, dtype))
    return x
