"""Functions of one real number that TensorRT has no layer for, composed of those that it has."""

from __future__ import annotations

from math import pi, sqrt

from trtdiag.convert.writer import Writer
from trtdiag.network import DType, Value
from trtdiag.network.layers import ActivationType, UnaryOperation


def times(write: Writer, x: Value, factor: float) -> Value:
    """``x * factor``."""
    return x if factor == 1 else x * factor


def opposite(write: Writer, x: Value) -> Value:
    """``-x``: integers are taken from 0, for which there is no layer of its own."""
    return -x if x.dtype.is_float else 0 - x


def at_most(write: Writer, left: Value, right: Value) -> Value:
    """``left <= right``: false for NaN, which the opposite of ``>`` is not."""
    if not left.dtype.is_float:
        return ~(left > right)
    return (left < right) | left.eq(right)


def is_nan(write: Writer, x: Value) -> Value:
    """Whether a float is NaN; on targets without the operation, whether it differs from itself."""
    if UnaryOperation.ISNAN.name in write.target.unaries:
        return write.unary(UnaryOperation.ISNAN, x)
    return ~x.eq(x)


def sign_bit(write: Writer, x: Value) -> Value:
    """Whether a float is below 0 or is -0.0, whose reciprocal is minus infinity; false for every NaN."""
    return (x < 0) | (x.reciprocal() < 0)


def truncated(write: Writer, x: Value) -> Value:
    """A float rounded towards zero; keeps -0.0, infinities and NaN."""
    return write.select(x < 0, x.ceil(), x.floor())


def log_of_one_plus(write: Writer, x: Value) -> Value:
    """``log(1 + x)``; near 0, where the sum would lose digits, ``2 * atanh(x / (2 + x))``."""
    small = abs(x) < 0.5
    near = write.unary(UnaryOperation.ATANH, x / (x + 2)) * 2
    return write.select(small, near, (x + 1).log())


def exp_less_one(write: Writer, x: Value) -> Value:
    """``exp(x) - 1`` as ``tanh(x / 2) * (exp(x) + 1)``, which loses no digits near 0."""
    return write.activation(ActivationType.TANH, x * 0.5) * (x.exp() + 1)


def sine_cardinal(write: Writer, x: Value) -> Value:
    """``sin(pi * x) / (pi * x)``; near 0 a series, which is 1 there.

    The ratio was 0 for 1e-8 on TensorRT 8.6.0 (seen on an H200): so is its sine of small numbers.
    """
    angle = x * pi
    ratio = write.unary(UnaryOperation.SIN, angle) / angle
    square = angle * angle
    # What is left out is the sixth power over 5,040: 2e-10 at 0.1.
    series = square * (square * (1 / 120) + -1 / 6) + 1
    return write.select(square < 0.01, series, ratio)


def sign(write: Writer, x: Value) -> Value:
    """1, -1 or 0; of a float 0 for NaN, as in PyTorch: TensorRT 8.6.0 gives NaN (seen on an H200)."""
    if x.dtype is DType.BOOL:
        return x
    if not x.dtype.is_float:
        return write.unary(UnaryOperation.SIGN, x)
    above, below = x > 0, x < 0
    return write.cast(above, x.dtype) - write.cast(below, x.dtype)


def softplus_of_negative(write: Writer, x: Value) -> Value:
    """``log(1 + exp(-abs(x)))``: the exponential never overflows."""
    return write.activation(ActivationType.SOFTPLUS, -abs(x), 1.0, 1.0)


def gelu(write: Writer, x: Value, *, by_tanh: bool) -> Value:
    """GELU for targets without the activation."""
    if by_tanh:
        share = write.activation(ActivationType.TANH, (x + x * x * x * 0.044715) * sqrt(2 / pi))
    else:
        share = write.unary(UnaryOperation.ERF, x * sqrt(0.5))
    return x * 0.5 * (share + 1)
