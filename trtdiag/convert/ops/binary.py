"""Functions of two real numbers."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.compute_dtype import in_float32
from trtdiag.convert.layer_writers.elementary import is_nan, log_of_one_plus, plus, sign_bit, softplus_of_negative
from trtdiag.convert.promotion import computed
from trtdiag.convert.registry import converter
from trtdiag.network.builder import Value
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.unary import UnaryOperation


@converter
def logaddexp(call: Call) -> Value:
    """aten::logaddexp(Tensor self, Tensor other) -> Tensor"""
    write = call.write

    def compose(a: Value, b: Value) -> Value:
        more = softplus_of_negative(write, write.elementwise(Op.SUB, a, b))
        total = write.elementwise(Op.SUM, write.elementwise(Op.MAX, a, b), more)
        # Equal infinities have no difference.
        return write.select(write.elementwise(Op.EQUAL, a, b), plus(write, a, log(2)), total)

    return _paired(call, compose)


@converter
def times_logarithm(call: Call) -> Value:
    """aten::xlogy.Tensor(Tensor self, Tensor other) -> Tensor
    aten::xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor
    aten::xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor
    aten::special_xlog1py(Tensor self, Tensor other) -> Tensor
    """
    write = call.write

    def compose(x: Value, y: Value) -> Value:
        one_plus = call.op_name == "special_xlog1py"
        logarithm = log_of_one_plus(write, y) if one_plus else write.unary(UnaryOperation.LOG, y)
        product = write.elementwise(Op.PROD, x, logarithm)
        # 0 beside every number, be its logarithm infinite; NaN beside NaN.
        at_zero = write.select(is_nan(write, y), y, write.scalar(0, y))
        return write.select(write.elementwise(Op.EQUAL, x, write.scalar(0, x)), at_zero, product)

    return _paired(call, compose)


@converter
def copysign(call: Call) -> Value:
    """aten::copysign.Tensor(Tensor self, Tensor other) -> Tensor

    NaN counts as positive, whatever its sign.

    aten::copysign.Scalar(Tensor self, Scalar other) -> Tensor
    """
    write = call.write

    def compose(size: Value, sign: Value) -> Value:
        positive = write.unary(UnaryOperation.ABS, size)
        return write.select(sign_bit(write, sign), write.unary(UnaryOperation.NEG, positive), positive)

    return _paired(call, compose)


@converter
def hypot(call: Call) -> Value:
    """aten::hypot(Tensor self, Tensor other) -> Tensor

    NaN where one is NaN, also beside an infinity.
    """
    write = call.write

    def compose(a: Value, b: Value) -> Value:
        sizes = [write.unary(UnaryOperation.ABS, value) for value in (a, b)]
        most, least = write.elementwise(Op.MAX, *sizes), write.elementwise(Op.MIN, *sizes)
        # By the ratio, so that no square overflows; equal ones, 0 and infinity among them, have the ratio 1.
        ratio = write.elementwise(Op.DIV, least, most)
        ratio = write.select(write.elementwise(Op.EQUAL, least, most), write.scalar(1, ratio), ratio)
        root = write.unary(UnaryOperation.SQRT, plus(write, write.elementwise(Op.PROD, ratio, ratio), 1))
        return write.elementwise(Op.PROD, most, root)

    return _paired(call, compose)


@converter
def atan2(call: Call) -> Value:
    """aten::atan2(Tensor self, Tensor other) -> Tensor"""
    write = call.write

    def compose(y: Value, x: Value) -> Value:
        height, width = (write.unary(UnaryOperation.ABS, value) for value in (y, x))
        # Both 0, both infinite, or just equal: 0 / 1, 1 / 1.
        equal = write.elementwise(Op.EQUAL, height, width)
        steep = write.elementwise(Op.DIV, height, width)
        steep = write.select(equal, write.unary(UnaryOperation.SIGN, height), steep)
        angle = write.unary(UnaryOperation.ATAN, steep)
        beyond = write.elementwise(Op.SUB, write.scalar(pi, angle), angle)
        angle = write.select(sign_bit(write, x), beyond, angle)
        return write.select(sign_bit(write, y), write.unary(UnaryOperation.NEG, angle), angle)

    return _paired(call, compose)


def _paired(call: Call, compose: Callable[[Value, Value], Value]) -> Value:
    dtype = computed(call)
    return in_float32(call.write, compose, call.operand("self", dtype), call.operand("other", dtype))
