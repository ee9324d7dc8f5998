"""Sums, differences and products."""

from __future__ import annotations

from trtdiag.convert import Call, converter
from trtdiag.convert.layer_writers.compute_dtype import beside_numbers, in_float32
from trtdiag.convert.layer_writers.rotary import turned_sum
from trtdiag.network import DType, Value
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op


@converter
def sum_or_difference(call: Call) -> Value:
    """aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
    aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
    aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
    aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
    aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
    aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
    """
    dtype, write = call.out.dtype, call.write
    op = Op.SUM if call.op_name == "add" else Op.SUB
    left, right = ("other", "self") if call.op_name == "rsub" else ("self", "other")
    first, second = call.operand(left, dtype), call.operand(right, dtype)
    if call.is_number("alpha") and call.number("alpha") == 1:
        turned = turned_sum(write, first, second) if op is Op.SUM else None
        if turned is not None:
            return turned
        return write.elementwise(Op.OR if dtype is DType.BOOL else op, first, second)
    alpha = call.operand("alpha", dtype)
    if dtype is DType.BOOL:
        return first | second & alpha

    def compose(a: Value, b: Value, factor: Value) -> Value:
        return write.elementwise(op, a, b * factor)

    return in_float32(write, compose, first, second, alpha)


@converter
def product(call: Call) -> Value:
    """aten::mul.Tensor(Tensor self, Tensor other) -> Tensor
    aten::mul.Scalar(Tensor self, Scalar other) -> Tensor
    """
    write, dtype = call.write, beside_numbers(call, call.out.dtype, "self", "other")
    op = Op.AND if dtype is DType.BOOL else Op.PROD
    made = write.elementwise(op, call.operand("self", dtype), call.operand("other", dtype))
    return write.cast(made, call.out.dtype)


@converter
def sum_with_fraction(call: Call) -> Value:
    """aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor
    aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor
    """
    dtype, write = call.out.dtype, call.write
    op = Op.PROD if call.op_name == "addcmul" else Op.DIV
    factor = call.operand("value", dtype)

    def compose(start: Value, one: Value, other: Value, factor: Value) -> Value:
        # value comes first, as in PyTorch: it decides what overflows.
        scaled = one if call.arguments["value"] == 1 else one * factor
        return start + write.elementwise(op, scaled, other)

    operands = [call.operand(name, dtype) for name in ("self", "tensor1", "tensor2")]
    return in_float32(write, compose, *operands, factor)


@converter
def lerp(call: Call) -> Value:
    """aten::lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor
    aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor
    """
    dtype, write = call.out.dtype, call.write

    def compose(start: Value, end: Value, weight: Value) -> Value:
        # From whichever end is nearer, as in PyTorch, so that weights 0 and 1 give the ends themselves.
        way = end - start
        rest = 1 - weight
        from_start = start + weight * way
        from_end = end - way * rest
        size = abs(weight)
        return write.select(size < write.scalar(0.5, weight), from_start, from_end)

    return in_float32(write, compose, *(call.operand(name, dtype) for name in ("self", "end", "weight")))


@converter
def square(call: Call) -> Value:
    """aten::square(Tensor self) -> Tensor"""
    x = call.operand("self", call.out.dtype)
    return x * x
