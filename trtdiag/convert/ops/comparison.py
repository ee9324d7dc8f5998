"""Comparisons and tests of one element."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from trtdiag.convert import Call, Writer, converter
from trtdiag.convert.layer_writers.compute_dtype import both
from trtdiag.convert.layer_writers.elementary import at_most, is_nan
from trtdiag.network import DType, Value
from trtdiag.network.layers import ElementWiseOperation as Op, UnaryOperation


@converter
def equality(call: Call) -> Value:
    """aten::eq.Tensor(Tensor self, Tensor other) -> Tensor
    aten::eq.Scalar(Tensor self, Scalar other) -> Tensor
    aten::ne.Tensor(Tensor self, Tensor other) -> Tensor
    aten::ne.Scalar(Tensor self, Scalar other) -> Tensor
    """
    left, right, dtype = both(call)
    differs = call.op_name == "ne"
    if dtype is DType.BOOL:
        found, differs = left ^ right, not differs
    else:
        found = left.eq(right)
    return ~found if differs else found


@converter
def order(call: Call) -> Value:
    """aten::lt.Tensor(Tensor self, Tensor other) -> Tensor
    aten::lt.Scalar(Tensor self, Scalar other) -> Tensor
    aten::le.Tensor(Tensor self, Tensor other) -> Tensor
    aten::le.Scalar(Tensor self, Scalar other) -> Tensor
    aten::gt.Tensor(Tensor self, Tensor other) -> Tensor
    aten::gt.Scalar(Tensor self, Scalar other) -> Tensor
    aten::ge.Tensor(Tensor self, Tensor other) -> Tensor
    aten::ge.Scalar(Tensor self, Scalar other) -> Tensor
    """
    write, name = call.write, call.op_name
    left, right, dtype = both(call)
    if dtype is DType.BOOL:
        low, high = (left, right) if name[0] == "l" else (right, left)
        return write.elementwise(Op.AND if name[1] == "t" else Op.OR, ~low, high)
    if name[1] == "t":
        return write.elementwise(Op.LESS if name == "lt" else Op.GREATER, left, right)
    return at_most(write, left, right) if name == "le" else at_most(write, right, left)


_TESTS: dict[str, Callable[[Writer, Value], Value]] = {
    "isnan": is_nan,
    "isinf": lambda write, x: write.unary(UnaryOperation.ISINF, x),
    "isfinite": lambda write, x: abs(x) < write.scalar(inf, x),
    "isposinf": lambda write, x: x.eq(inf),
    "isneginf": lambda write, x: x.eq(-inf),
}


@converter
def float_test(call: Call) -> Value:
    """aten::isnan(Tensor self) -> Tensor
    aten::isinf(Tensor self) -> Tensor
    aten::isfinite(Tensor self) -> Tensor
    aten::isposinf(Tensor self) -> Tensor
    aten::isneginf(Tensor self) -> Tensor
    """
    x, write = call.tensor("self"), call.write
    if x.dtype.is_float:
        return _TESTS[call.op_name](write, x)
    return write.filled(x.shape, call.op_name == "isfinite", DType.BOOL)
