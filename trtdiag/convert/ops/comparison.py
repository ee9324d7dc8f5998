"""Comparisons and tests of one element."""

from __future__ import annotations

from collections.abc import Callable

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.elementary import at_most, is_infinite, is_nan, negated
from trtdiag.convert.promotion import both
from trtdiag.convert.registry import Convert, converter, register
from trtdiag.convert.writer import Writer
from trtdiag.network.builder import Value
from trtdiag.network.dtype import DType
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.unary import UnaryOperation

_Compare = Callable[[Writer, Value, Value], Value]


def _equal(write: Writer, left: Value, right: Value) -> Value:
    if left.dtype is DType.BOOL:
        return negated(write, write.elementwise(Op.XOR, left, right))
    return write.elementwise(Op.EQUAL, left, right)


def _different(write: Writer, left: Value, right: Value) -> Value:
    if left.dtype is DType.BOOL:
        return write.elementwise(Op.XOR, left, right)
    return negated(write, write.elementwise(Op.EQUAL, left, right))


def _less(write: Writer, left: Value, right: Value) -> Value:
    if left.dtype is DType.BOOL:
        return write.elementwise(Op.AND, negated(write, left), right)
    return write.elementwise(Op.LESS, left, right)


def _greater(write: Writer, left: Value, right: Value) -> Value:
    if left.dtype is DType.BOOL:
        return _less(write, right, left)
    return write.elementwise(Op.GREATER, left, right)


def _at_most(write: Writer, left: Value, right: Value) -> Value:
    if left.dtype is DType.BOOL:
        return write.elementwise(Op.OR, negated(write, left), right)
    return at_most(write, left, right)


def _at_least(write: Writer, left: Value, right: Value) -> Value:
    return _at_most(write, right, left)


def _comparison(compare: _Compare) -> Convert:
    def run(call: Call) -> Value:
        left, right, _ = both(call)
        return compare(call.write, left, right)

    return run


for _name, _compare in {
    "eq": _equal,
    "ne": _different,
    "lt": _less,
    "le": _at_most,
    "gt": _greater,
    "ge": _at_least,
}.items():
    register(f"aten::{_name}.Tensor(Tensor self, Tensor other) -> Tensor", _comparison(_compare))
    register(f"aten::{_name}.Scalar(Tensor self, Scalar other) -> Tensor", _comparison(_compare))


@converter
def isnan(call: Call) -> Value:
    """aten::isnan(Tensor self) -> Tensor"""
    return _tested(call, is_nan, False)


@converter
def isinf(call: Call) -> Value:
    """aten::isinf(Tensor self) -> Tensor"""
    return _tested(call, lambda write, x: write.unary(UnaryOperation.ISINF, x), False)


@converter
def isfinite(call: Call) -> Value:
    """aten::isfinite(Tensor self) -> Tensor"""

    def below_infinity(write: Writer, x: Value) -> Value:
        size = write.unary(UnaryOperation.ABS, x)
        return write.elementwise(Op.LESS, size, write.scalar(float("inf"), x))

    return _tested(call, below_infinity, True)


@converter
def isposinf(call: Call) -> Value:
    """aten::isposinf(Tensor self) -> Tensor"""
    return _tested(call, lambda write, x: is_infinite(write, x, positive=True), False)


@converter
def isneginf(call: Call) -> Value:
    """aten::isneginf(Tensor self) -> Tensor"""
    return _tested(call, lambda write, x: is_infinite(write, x, positive=False), False)


def _tested(call: Call, test: Callable[[Writer, Value], Value], of_integers: bool) -> Value:
    x = call.tensor("self")
    if x.dtype.is_float:
        return test(call.write, x)
    return call.write.filled(x.shape, of_integers, DType.BOOL)
