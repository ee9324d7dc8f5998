"""Functions of one real number that TensorRT has no layer for, composed of those that it has."""

from __future__ import annotations

from math import pi, sqrt

from trtdiag.convert.writer import Writer
from trtdiag.network.builder import Value
from trtdiag.network.layers.activation import ActivationType
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.unary import UnaryOperation

_INFINITY = float("inf")


def times(write: Writer, x: Value, factor: float) -> Value:
    """``x * factor``."""
    return x if factor == 1 else write.elementwise(Op.PROD, x, write.scalar(factor, x))


def plus(write: Writer, x: Value, summand: float) -> Value:
    """``x + summand``."""
    return x if summand == 0 else write.elementwise(Op.SUM, x, write.scalar(summand, x))


def opposite(write: Writer, x: Value) -> Value:
    """``-x``: integers are taken from 0, for which there is no layer of its own."""
    if x.dtype.is_float:
        return write.unary(UnaryOperation.NEG, x)
    return write.elementwise(Op.SUB, write.scalar(0, x), x)


def negated(write: Writer, condition: Value) -> Value:
    """The opposite of a bool."""
    return write.unary(UnaryOperation.NOT, condition)


def at_most(write: Writer, left: Value, right: Value) -> Value:
    """``left <= right``: false for NaN, which the opposite of ``>`` is not."""
    if not left.dtype.is_float:
        return negated(write, write.elementwise(Op.GREATER, left, right))
    less, equal = write.elementwise(Op.LESS, left, right), write.elementwise(Op.EQUAL, left, right)
    return write.elementwise(Op.OR, less, equal)


def is_nan(write: Writer, x: Value) -> Value:
    """Whether a float is NaN; on targets without the operation, whether it differs from itself."""
    if UnaryOperation.ISNAN.name in write.target.unaries:
        return write.unary(UnaryOperation.ISNAN, x)
    return negated(write, write.elementwise(Op.EQUAL, x, x))


def sign_bit(write: Writer, x: Value) -> Value:
    """Whether a float is below 0 or is -0.0, whose reciprocal is minus infinity; false for every NaN."""
    zero = write.scalar(0, x)
    below = write.elementwise(Op.LESS, x, zero)
    turned = write.elementwise(Op.LESS, write.unary(UnaryOperation.RECIP, x), zero)
    return write.elementwise(Op.OR, below, turned)


def truncated(write: Writer, x: Value) -> Value:
    """A float rounded towards zero; keeps -0.0, infinities and NaN."""
    below = write.elementwise(Op.LESS, x, write.scalar(0, x))
    return write.select(below, write.unary(UnaryOperation.CEIL, x), write.unary(UnaryOperation.FLOOR, x))


def log_of_one_plus(write: Writer, x: Value) -> Value:
    """``log(1 + x)``; near 0, where the sum would lose digits, ``2 * atanh(x / (2 + x))``."""
    small = write.elementwise(Op.LESS, write.unary(UnaryOperation.ABS, x), write.scalar(0.5, x))
    ratio = write.elementwise(Op.DIV, x, plus(write, x, 2))
    near = times(write, write.unary(UnaryOperation.ATANH, ratio), 2)
    return write.select(small, near, write.unary(UnaryOperation.LOG, plus(write, x, 1)))


def exp_less_one(write: Writer, x: Value) -> Value:
    """``exp(x) - 1`` as ``tanh(x / 2) * (exp(x) + 1)``, which loses no digits near 0."""
    half = write.activation(ActivationType.TANH, times(write, x, 0.5))
    return write.elementwise(Op.PROD, half, plus(write, write.unary(UnaryOperation.EXP, x), 1))


def sine_cardinal(write: Writer, x: Value) -> Value:
    """``sin(pi * x) / (pi * x)``; near 0 a series, which is 1 there.

    The ratio was 0 for 1e-8 on TensorRT 8.6.0 (seen on an H200): so is its sine of small numbers.
    """
    angle = times(write, x, pi)
    ratio = write.elementwise(Op.DIV, write.unary(UnaryOperation.SIN, angle), angle)
    square = write.elementwise(Op.PROD, angle, angle)
    # What is left out is the sixth power over 5,040: 2e-10 at 0.1.
    series = plus(write, write.elementwise(Op.PROD, square, plus(write, times(write, square, 1 / 120), -1 / 6)), 1)
    small = write.elementwise(Op.LESS, square, write.scalar(0.01, square))
    return write.select(small, series, ratio)


def sign(write: Writer, x: Value) -> Value:
    """1, -1 or 0; of a float 0 for NaN, as in PyTorch: TensorRT 8.6.0 gives NaN (seen on an H200)."""
    if not x.dtype.is_float:
        return write.unary(UnaryOperation.SIGN, x)
    above, below = (write.elementwise(op, x, write.scalar(0, x)) for op in (Op.GREATER, Op.LESS))
    return write.elementwise(Op.SUB, write.cast(above, x.dtype), write.cast(below, x.dtype))


def softplus_of_negative(write: Writer, x: Value) -> Value:
    """``log(1 + exp(-abs(x)))``: the exponential never overflows."""
    away = write.unary(UnaryOperation.NEG, write.unary(UnaryOperation.ABS, x))
    return write.activation(ActivationType.SOFTPLUS, away, 1.0, 1.0)


def gelu(write: Writer, x: Value, *, by_tanh: bool) -> Value:
    """GELU for targets without the activation."""
    if by_tanh:
        cube = write.elementwise(Op.PROD, write.elementwise(Op.PROD, x, x), x)
        inner = times(write, write.elementwise(Op.SUM, x, times(write, cube, 0.044715)), sqrt(2 / pi))
        share = write.activation(ActivationType.TANH, inner)
    else:
        share = write.unary(UnaryOperation.ERF, times(write, x, sqrt(0.5)))
    return write.elementwise(Op.PROD, times(write, x, 0.5), plus(write, share, 1))


def is_infinite(write: Writer, x: Value, *, positive: bool) -> Value:
    """Whether a float is infinity, or minus infinity."""
    return write.elementwise(Op.EQUAL, x, write.scalar(_INFINITY if positive else -_INFINITY, x))
