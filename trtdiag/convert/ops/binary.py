"""Functions of two real numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log, pi

from trtdiag.convert import Call, Writer, converter
from trtdiag.convert.layer_writers.compute_dtype import in_float32
from trtdiag.convert.layer_writers.elementary import is_nan, log_of_one_plus, sign_bit, softplus_of_negative
from trtdiag.network.layers.unary import UnaryOperation
from trtdiag.network.value import Value


def _log_of_sum(write: Writer, a: Value, b: Value) -> Value:
    more = softplus_of_negative(write, a - b)
    total = a.maximum(b) + more
    # Equal infinities have no difference.
    return write.select(a.eq(b), a + log(2), total)


def _times_logarithm(write: Writer, x: Value, y: Value, *, one_plus: bool) -> Value:
    product = x * (log_of_one_plus(write, y) if one_plus else y.log())
    # 0 beside every number, be its logarithm infinite; NaN beside NaN.
    at_zero = write.select(is_nan(write, y), y, 0)
    return write.select(x.eq(0), at_zero, product)


def _with_sign(write: Writer, size: Value, sign: Value) -> Value:
    positive = abs(size)
    return write.select(sign_bit(write, sign), -positive, positive)


def _hypotenuse(write: Writer, a: Value, b: Value) -> Value:
    a, b = abs(a), abs(b)
    most, least = a.maximum(b), a.minimum(b)
    # By the ratio, so that no square overflows; equal ones, 0 and infinity among them, have the ratio 1.
    ratio = least / most
    ratio = write.select(least.eq(most), 1, ratio)
    return most * (ratio * ratio + 1).sqrt()


def _angle(write: Writer, y: Value, x: Value) -> Value:
    height, width = abs(y), abs(x)
    # Both 0, both infinite, or just equal: 0 / 1, 1 / 1.
    equal = height.eq(width)
    steep = height / width
    angle = write.unary(UnaryOperation.ATAN, write.select(equal, write.unary(UnaryOperation.SIGN, height), steep))
    beyond = pi - angle
    angle = write.select(sign_bit(write, x), beyond, angle)
    return write.select(sign_bit(write, y), -angle, angle)


_WRITTEN: dict[str, Callable[[Writer, Value, Value], Value]] = {
    "logaddexp": _log_of_sum,
    "xlogy": partial(_times_logarithm, one_plus=False),
    "special_xlog1py": partial(_times_logarithm, one_plus=True),
    "copysign": _with_sign,
    "hypot": _hypotenuse,
    "atan2": _angle,
}


@converter
def function_of_two(call: Call) -> Value:
    """aten::copysign.Tensor(Tensor self, Tensor other) -> Tensor

    NaN counts as positive, whatever its sign.

    aten::hypot(Tensor self, Tensor other) -> Tensor

    NaN where one is NaN, also beside an infinity.

    aten::copysign.Scalar(Tensor self, Scalar other) -> Tensor
    aten::logaddexp(Tensor self, Tensor other) -> Tensor
    aten::xlogy.Tensor(Tensor self, Tensor other) -> Tensor
    aten::xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor
    aten::xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor
    aten::special_xlog1py(Tensor self, Tensor other) -> Tensor
    aten::atan2(Tensor self, Tensor other) -> Tensor
    """
    dtype, write = call.out.dtype, call.write
    compose = partial(_WRITTEN[call.op_name], write)
    return in_float32(write, compose, call.operand("self", dtype), call.operand("other", dtype))
