"""Sums, differences, products and quotients."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.promotion import both
from trtdiag.convert.registry import converter
from trtdiag.network.builder import Value
from trtdiag.network.dtype import DType
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op


@converter
def add(call: Call) -> Value:
    """aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return _sum(call, Op.SUM)


@converter
def sub(call: Call) -> Value:
    """aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return _sum(call, Op.SUB)


@converter
def mul(call: Call) -> Value:
    """aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"""
    left, right, dtype = both(call)
    if dtype is DType.BOOL:
        return call.write.elementwise(Op.AND, left, right)
    return call.write.elementwise(Op.PROD, left, right)


def _sum(call: Call, op: Op) -> Value:
    left, right, dtype = both(call)
    alpha = call.number("alpha")
    if dtype is DType.BOOL:
        return call.write.elementwise(Op.OR, left, right)
    if alpha != 1:
        right = call.write.elementwise(Op.PROD, right, call.write.scalar(alpha, right))
    return call.write.elementwise(op, left, right)
