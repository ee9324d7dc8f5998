"""Quotients and rests."""

from __future__ import annotations

from collections.abc import Callable

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.compute_dtype import in_float32
from trtdiag.convert.layer_writers.division import float_rest, floored_quotient, integer_rest
from trtdiag.convert.layer_writers.elementary import truncated
from trtdiag.convert.promotion import computed
from trtdiag.convert.registry import converter
from trtdiag.network.builder import Value
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op


@converter
def div_tensor(call: Call) -> Value:
    """aten::div.Tensor(Tensor self, Tensor other) -> Tensor"""
    return _quotient(call, None)


@converter
def div_scalar(call: Call) -> Value:
    """aten::div.Scalar(Tensor self, Scalar other) -> Tensor"""
    return _quotient(call, None)


@converter
def true_divide_tensor(call: Call) -> Value:
    """aten::true_divide.Tensor(Tensor self, Tensor other) -> Tensor"""
    return _quotient(call, None)


@converter
def div_tensor_mode(call: Call) -> Value:
    """aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor

    Rounded down, floats are exact while the quotient is below 2**22.
    """
    return _quotient(call, call.text("rounding_mode") if call.has("rounding_mode") else None)


@converter
def div_scalar_mode(call: Call) -> Value:
    """aten::div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor

    Rounded down, floats are exact while the quotient is below 2**22.
    """
    return _quotient(call, call.text("rounding_mode") if call.has("rounding_mode") else None)


@converter
def floor_divide(call: Call) -> Value:
    """aten::floor_divide(Tensor self, Tensor other) -> Tensor

    Floats are exact while the quotient is below 2**22.
    """
    return _quotient(call, "floor")


@converter
def floor_divide_scalar(call: Call) -> Value:
    """aten::floor_divide.Scalar(Tensor self, Scalar other) -> Tensor

    Floats are exact while the quotient is below 2**22.
    """
    return _quotient(call, "floor")


@converter
def remainder_tensor(call: Call) -> Value:
    """aten::remainder.Tensor(Tensor self, Tensor other) -> Tensor

    Floats are exact while the quotient is below 2**22.
    """
    return _rest(call, floored=True)


@converter
def remainder_scalar(call: Call) -> Value:
    """aten::remainder.Scalar(Tensor self, Scalar other) -> Tensor

    Floats are exact while the quotient is below 2**22.
    """
    return _rest(call, floored=True)


@converter
def remainder_scalar_tensor(call: Call) -> Value:
    """aten::remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor

    Floats are exact while the quotient is below 2**22.
    """
    return _rest(call, floored=True)


@converter
def fmod_tensor(call: Call) -> Value:
    """aten::fmod.Tensor(Tensor self, Tensor other) -> Tensor

    Floats are exact while the quotient is below 2**22.
    """
    return _rest(call, floored=False)


@converter
def fmod_scalar(call: Call) -> Value:
    """aten::fmod.Scalar(Tensor self, Scalar other) -> Tensor

    Floats are exact while the quotient is below 2**22.
    """
    return _rest(call, floored=False)


def _operands(call: Call) -> tuple[Value, Value, float | None]:
    """Dividend, divisor, and the divisor as a number where it is one."""
    dtype = computed(call)
    constant = float(call.number("other")) if call.is_number("other") else None
    return call.operand("self", dtype), call.operand("other", dtype), constant


def _quotient(call: Call, rounding: str | None) -> Value:
    left, right, constant = _operands(call)
    write = call.write
    if not left.dtype.is_float:
        return write.elementwise(Op.FLOOR_DIV if rounding == "floor" else Op.DIV, left, right)
    if rounding is None:
        return write.elementwise(Op.DIV, left, right)
    rounded: Callable[[Value, Value], Value]
    if rounding == "trunc":

        def rounded(a: Value, b: Value) -> Value:
            return truncated(write, write.elementwise(Op.DIV, a, b))
    else:

        def rounded(a: Value, b: Value) -> Value:
            return floored_quotient(write, a, b, constant)

    return in_float32(write, rounded, left, right)


def _rest(call: Call, *, floored: bool) -> Value:
    left, right, constant = _operands(call)
    write = call.write
    if not left.dtype.is_float:
        return integer_rest(write, left, right, floored=floored)
    return in_float32(write, lambda a, b: float_rest(write, a, b, constant, floored=floored), left, right)
