"""Quotients and rests."""

from __future__ import annotations

from trtdiag.convert import Call, converter
from trtdiag.convert.layer_writers.compute_dtype import beside_numbers, in_float32
from trtdiag.convert.layer_writers.division import float_rest, floored_quotient, integer_quotient, integer_rest
from trtdiag.convert.layer_writers.elementary import truncated
from trtdiag.network.value import Value


@converter
def quotient(call: Call) -> Value:
    """aten::floor_divide(Tensor self, Tensor other) -> Tensor
    aten::floor_divide.Scalar(Tensor self, Scalar other) -> Tensor

    Floats are exact while the quotient is below 2**22.

    aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor
    aten::div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor

    Rounded down, floats are exact while the quotient is below 2**22.

    aten::div.Tensor(Tensor self, Tensor other) -> Tensor
    aten::div.Scalar(Tensor self, Scalar other) -> Tensor
    aten::true_divide.Tensor(Tensor self, Tensor other) -> Tensor
    """
    write = call.write
    rounding = "floor" if call.op_name == "floor_divide" else call.arguments.get("rounding_mode")
    if rounding is None and call.out.dtype.is_float:
        dtype = beside_numbers(call, call.out.dtype, "other")
        return write.cast(call.operand("self", dtype) / call.operand("other", dtype), call.out.dtype)
    left, right, constant = _operands(call)
    if not left.dtype.is_float:
        return integer_quotient(write, left, right, constant, floored=rounding == "floor")

    def rounded(a: Value, b: Value) -> Value:
        if rounding == "trunc":
            return truncated(write, a / b)
        return floored_quotient(write, a, b, constant)

    return in_float32(write, rounded, left, right)


@converter
def rest(call: Call) -> Value:
    """aten::remainder.Tensor(Tensor self, Tensor other) -> Tensor
    aten::remainder.Scalar(Tensor self, Scalar other) -> Tensor
    aten::remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
    aten::fmod.Tensor(Tensor self, Tensor other) -> Tensor
    aten::fmod.Scalar(Tensor self, Scalar other) -> Tensor

    Floats are exact while the quotient is below 2**22.
    """
    left, right, constant = _operands(call)
    write, floored = call.write, call.op_name == "remainder"
    if not left.dtype.is_float:
        return integer_rest(write, left, right, constant, floored=floored)
    return in_float32(write, lambda a, b: float_rest(write, a, b, constant, floored=floored), left, right)


def _operands(call: Call) -> tuple[Value, Value, float | None]:
    """Dividend, divisor, and the divisor as a number where it is one."""
    dtype = call.out.dtype
    constant = float(call.number("other")) if call.is_number("other") else None
    return call.operand("self", dtype), call.operand("other", dtype), constant
