"""Rounding."""

from __future__ import annotations

from trtdiag.convert import Call, converter, refuse
from trtdiag.convert.layer_writers.compute_dtype import in_float32
from trtdiag.convert.layer_writers.elementary import truncated
from trtdiag.network.layers import ElementWiseOperation as Op, UnaryOperation
from trtdiag.network.value import Value


@converter
def rounded(call: Call) -> Value:
    """aten::floor(Tensor self) -> Tensor
    aten::ceil(Tensor self) -> Tensor
    aten::round(Tensor self) -> Tensor
    aten::trunc(Tensor self) -> Tensor
    """
    x, write, name = call.tensor("self"), call.write, call.op_name
    if not x.dtype.is_float:
        return x
    return truncated(write, x) if name == "trunc" else write.unary(UnaryOperation[name.upper()], x)


@converter
def round_decimals(call: Call) -> Value:
    """aten::round.decimals(Tensor self, *, int decimals) -> Tensor"""
    x, write, decimals = call.tensor("self"), call.write, call.integer("decimals")
    if not x.dtype.is_float:
        if decimals < 0:
            raise refuse("rounded-integer", "it rounds integers to tens", "divide, round and multiply floats instead")
        return x
    factor = 10.0 ** abs(decimals)

    def compose(value: Value) -> Value:
        # By the whole power of ten in both directions, as in PyTorch: 0.1 is no float.
        there, back = (Op.PROD, Op.DIV) if decimals >= 0 else (Op.DIV, Op.PROD)
        moved = write.elementwise(there, value, write.scalar(factor, value)) if decimals else value
        rounded = moved.round()
        return write.elementwise(back, rounded, write.scalar(factor, value)) if decimals else rounded

    return in_float32(write, compose, x)


@converter
def frac(call: Call) -> Value:
    """aten::frac(Tensor self) -> Tensor"""
    x = call.operand("self", call.out.dtype)
    return x - truncated(call.write, x) if x.dtype.is_float else x * 0
