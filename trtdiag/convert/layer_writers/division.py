"""Quotients rounded to integers, and the rests that they leave."""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp

import torch

from trtdiag.convert.layer_writers.elementary import plus, times
from trtdiag.convert.writer import Writer
from trtdiag.network.builder import Value
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.unary import UnaryOperation

# A float32 has 24 bits.  Half of the divisor's, times a quotient below 2**12, is exact; so are two such steps.
_HALF = 4097.0
_STEP = 2048.0


@dataclass(frozen=True)
class Divisor:
    """The absolute value of a float32 divisor, whole and in two halves of 12 bits; no halves for a power of two."""

    whole: Value
    halves: tuple[Value, Value] | None


def integer_rest(write: Writer, left: Value, right: Value, *, floored: bool) -> Value:
    """What is left of an integer after division: with the sign of the divisor, or else of the dividend."""
    quotient = write.elementwise(Op.FLOOR_DIV if floored else Op.DIV, left, right)
    return write.elementwise(Op.SUB, left, write.elementwise(Op.PROD, quotient, right))


def float_rest(write: Writer, left: Value, right: Value, constant: float | None, *, floored: bool) -> Value:
    """The same of float32 numbers, exact while the quotient is below 2**22.

    Args:
        write: Writes.
        left: The dividend.
        right: The divisor.
        constant: The divisor, where it is one number that is known.
        floored: Whether the result has the sign of the divisor.
    """
    rest = _towards_zero(write, left, right, constant)
    if not floored:
        return rest
    moved = write.elementwise(Op.SUM, rest, right)
    return write.select(_beyond(write, rest, right), moved, rest)


def floored_quotient(write: Writer, left: Value, right: Value, constant: float | None) -> Value:
    """``left // right`` of float32 numbers: the plain quotient may have been rounded up to the next integer."""
    rest = _towards_zero(write, left, right, constant)
    exact = write.elementwise(Op.DIV, write.elementwise(Op.SUB, left, rest), right)
    whole = write.unary(UnaryOperation.ROUND, exact)
    whole = write.select(_beyond(write, rest, right), plus(write, whole, -1), whole)
    by_zero = write.elementwise(Op.EQUAL, right, write.scalar(0, right))
    return write.select(by_zero, write.elementwise(Op.DIV, left, right), whole)


def _towards_zero(write: Writer, left: Value, right: Value, constant: float | None) -> Value:
    """The rest with the sign of the dividend."""
    size = write.unary(UnaryOperation.ABS, left)
    divisor = _divisor(write, right, constant)
    if divisor.halves is not None:
        size = _step(write, size, _scaled(write, divisor))
    rest = _step(write, size, divisor)
    below = write.elementwise(Op.LESS, left, write.scalar(0, left))
    return write.select(below, write.unary(UnaryOperation.NEG, rest), rest)


def _beyond(write: Writer, rest: Value, right: Value) -> Value:
    """Whether the exact quotient lies between the one towards zero and the next below it."""
    zero = write.scalar(0, rest)
    other_way = write.elementwise(Op.XOR, *(write.elementwise(Op.LESS, x, zero) for x in (rest, right)))
    is_some = write.unary(UnaryOperation.NOT, write.elementwise(Op.EQUAL, rest, zero))
    return write.elementwise(Op.AND, other_way, is_some)


def _divisor(write: Writer, right: Value, constant: float | None) -> Divisor:
    if constant is None:
        whole = write.unary(UnaryOperation.ABS, right)
        product = times(write, whole, _HALF)
        upper = write.elementwise(Op.SUB, product, write.elementwise(Op.SUB, product, whole))
        return Divisor(whole, (upper, write.elementwise(Op.SUB, whole, upper)))
    number = torch.tensor(abs(constant), dtype=torch.float32)
    whole = write.scalar(float(number), right)
    if frexp(float(number))[0] == 0.5:
        return Divisor(whole, None)
    enlarged = number * _HALF
    upper_half = enlarged - (enlarged - number)
    halves = (write.scalar(float(upper_half), right), write.scalar(float(number - upper_half), right))
    return Divisor(whole, halves)


def _scaled(write: Writer, divisor: Divisor) -> Divisor:
    assert divisor.halves is not None
    upper, lower = divisor.halves
    return Divisor(times(write, divisor.whole, _STEP), (times(write, upper, _STEP), times(write, lower, _STEP)))


def _step(write: Writer, size: Value, divisor: Divisor) -> Value:
    """The rest of a positive number; the number itself where it is below the divisor, which may be infinite."""
    quotient = write.unary(UnaryOperation.FLOOR, write.elementwise(Op.DIV, size, divisor.whole))
    rest = size
    for part in divisor.halves or (divisor.whole,):
        rest = write.elementwise(Op.SUB, rest, write.elementwise(Op.PROD, quotient, part))
    # The quotient may have been rounded up to the next integer.
    below = write.elementwise(Op.LESS, rest, write.scalar(0, rest))
    rest = write.select(below, write.elementwise(Op.SUM, rest, divisor.whole), rest)
    return write.select(write.elementwise(Op.LESS, size, divisor.whole), size, rest)
