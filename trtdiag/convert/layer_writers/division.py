"""Quotients rounded to integers, and the rests that they leave."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import frexp

import torch

from trtdiag.convert.writer import Writer
from trtdiag.network import DType, Value
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op

# A float32 has 24 bits.  Half of the divisor's, times a quotient below 2**12, is exact; so are two such steps.
_HALF = 4097.0
_STEP = 2048.0


# TensorRT 8.6 divides int32 in float32 where a product of matrices is in the same region (seen on an H100): a dividend
# beyond 2**24 is off by 64 at most there, and its quotient is rounded once more.
_OFF = 256
MOST_PLACES = 20
"""Binary places of the largest divisor whose quotients are exact then."""


def integer_quotient(
    write: Writer, left: Value, right: Value, constant: float | None, *, floored: bool = True
) -> Value:
    """``left // right`` of integers, exact also where it is computed in float32.

    Args:
        write: Writes.
        left: The dividend.
        right: The divisor.
        constant: The divisor, where it is one number that is known; quotients by others, and by those beyond
            ``2**MOST_PLACES``, are as TensorRT computes them, and so are sizes.
        floored: Whether it is rounded down, or else towards zero.
    """
    plain = write.elementwise(Op.FLOOR_DIV if floored else Op.DIV, left, right)
    number = int(constant or 0)
    is_size = plain.tensor.array() is not None
    if is_size or left.dtype is not DType.INT32 or not 1 < number <= 1 << MOST_PLACES:
        return plain
    whole = plain if floored else write.elementwise(Op.FLOOR_DIV, left, right)
    beyond = _OFF // number + 3
    # What is left is small, and moved above zero: this quotient is exact.
    whole = whole + ((left - whole * number + beyond * number) // number - beyond)
    if floored:
        return whole
    between = (left < 0) & ~(whole * number).eq(left)
    return whole + write.cast(between, whole.dtype)


def integer_rest(write: Writer, left: Value, right: Value, constant: float | None, *, floored: bool) -> Value:
    """What is left of an integer after division: with the sign of the divisor, or else of the dividend."""
    return left - integer_quotient(write, left, right, constant, floored=floored) * right


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
    moved = rest + right
    return write.select(_beyond(write, rest, right), moved, rest)


def floored_quotient(write: Writer, left: Value, right: Value, constant: float | None) -> Value:
    """``left // right`` of float32 numbers: the plain quotient may have been rounded up to the next integer."""
    rest = _towards_zero(write, left, right, constant)
    whole = ((left - rest) / right).round()
    whole = write.select(_beyond(write, rest, right), whole + -1, whole)
    return write.select(right.eq(0), left / right, whole)


def _towards_zero(write: Writer, left: Value, right: Value, constant: float | None) -> Value:
    """The rest with the sign of the dividend."""
    size = abs(left)
    whole, parts = _divisor(write, right, constant)
    if len(parts) == 2:
        size = _step(write, size, whole * _STEP, [part * _STEP for part in parts])
    rest = _step(write, size, whole, parts)
    return write.select(left < 0, -rest, rest)


def _beyond(write: Writer, rest: Value, right: Value) -> Value:
    """Whether the exact quotient lies between the one towards zero and the next below it."""
    zero = write.scalar(0, rest)
    return ((rest < zero) ^ (right < zero)) & ~rest.eq(zero)


def _divisor(write: Writer, right: Value, constant: float | None) -> tuple[Value, Sequence[Value]]:
    """The absolute value of a float32 divisor, whole and in two halves of 12 bits; a power of two has one part."""
    if constant is None:
        whole = abs(right)
        product = whole * _HALF
        upper = product - (product - whole)
        return whole, (upper, whole - upper)
    number = torch.tensor(abs(constant), dtype=torch.float32)
    whole = write.scalar(float(number), right)
    if frexp(float(number))[0] == 0.5:
        return whole, (whole,)
    enlarged = number * _HALF
    half = enlarged - (enlarged - number)
    return whole, (write.scalar(float(half), right), write.scalar(float(number - half), right))


def _step(write: Writer, size: Value, whole: Value, parts: Sequence[Value]) -> Value:
    """The rest of a positive number; the number itself where it is below the divisor, which may be infinite."""
    quotient = (size / whole).floor()
    rest = reduce(lambda left, part: left - quotient * part, parts, size)
    # The quotient may have been rounded up to the next integer.
    rest = write.select(rest < 0, rest + whole, rest)
    return write.select(size < whole, size, rest)
