"""Exact values of expressions and conditions at many points at once, over numpy arrays.

A value is a numerator over a positive denominator (both exact integers, see ``checked``) and a mask of the points
where it is defined: dividing by zero leaves a point undefined, and a condition is False there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import sqrt
from typing import Any

import numpy as np

from trtdiag.symbolic import checked_arrays
from trtdiag.symbolic.build import Number
from trtdiag.symbolic.checked_arrays import Array, Ints, ints
from trtdiag.symbolic.evaluate import MOST_POWER_BITS, power_value
from trtdiag.symbolic.expr import Condition, Expr, Relation
from trtdiag.symbolic.fold import Fold
from trtdiag.symbolic.patterns import Mask
from trtdiag.symbolic.ranges import Range

Arrays = Mapping[str, Any]
_ONE = ints(1)
_FLOAT_TO_INT = 1 << 62
_roots = np.frompyfunc(lambda top, bottom: sqrt(max(top, 0) / bottom).as_integer_ratio(), 2, 2)
_nearest = np.frompyfunc(lambda top, bottom: (top / bottom).as_integer_ratio(), 2, 2)  # Python rounds it once


@dataclass(frozen=True, slots=True)
class _Values:
    """``top / bottom`` (bottom > 0) where ``defined``; both may be plain."""

    top: Ints
    bottom: Ints
    defined: Array | bool


def evaluate_array(expr: Expr, arrays: Arrays) -> Array:
    """The integer value of ``expr`` at each point, as int64 where that suffices, else as Python integers.

    Args:
        expr: Must be integer at every point.
        arrays: Each symbol's values; arrays broadcast against one another, plain integers are allowed.

    Raises:
        ZeroDivisionError: It divides by zero at a point.
        ValueError: It is not an integer at a point.
    """
    values, defined = evaluate_masked(expr, arrays)
    if not bool(np.all(defined)):
        raise ZeroDivisionError("the expression divides by zero at some of the points")
    return values


def evaluate_masked(expr: Expr, arrays: Arrays) -> tuple[Array, Mask]:
    """The integer value of ``expr`` at each point, and at which points it is defined (any value elsewhere)."""
    result = _Points(arrays).expr(expr)
    shape = _shape(arrays)
    defined = np.broadcast_to(np.asarray(result.defined, dtype=bool), shape)
    top = result.top
    if result.bottom.constant != 1:
        whole, rest = checked_arrays.floordiv(top, result.bottom), checked_arrays.mod(top, result.bottom)
        if bool(np.any(np.asarray(rest.values != 0) & defined)):
            raise ValueError("the expression is not an integer at some of the points")
        top = whole
    dtype = object if not _plain(top.values) else np.int64
    return np.broadcast_to(np.asarray(top.values, dtype=dtype), shape), defined


def holds_array(condition: Condition, arrays: Arrays) -> Mask:
    """At which points ``condition`` is defined and true."""
    mask = _Points(arrays).condition(condition)
    return np.broadcast_to(np.asarray(mask, dtype=bool), _shape(arrays))


def all_values(range_: Range) -> Array:
    """Every value of a bounded range, in order; as int64 where that suffices."""
    assert range_.min is not None
    assert range_.max is not None
    if range_.min >= -(1 << 63) and range_.max < (1 << 63) - 1:
        return np.arange(range_.min, range_.max + 1, dtype=np.int64)
    return np.array(range(range_.min, range_.max + 1), dtype=object)


def _plain(values: Array | int) -> bool:
    return -(1 << 63) <= values < 1 << 63 if isinstance(values, int) else values.dtype != object


def _shape(arrays: Arrays) -> tuple[int, ...]:
    return np.broadcast_shapes(*(np.shape(array) for array in arrays.values()))


def _both(left: Array | bool, right: Array | bool) -> Array | bool:
    if left is True:
        return right
    return left if right is True else np.asarray(left) & np.asarray(right)


def _over_one_denominator(act: Callable[[Ints, Ints], Ints]) -> Callable[[_Values, _Values], _Values]:
    def acted(left: _Values, right: _Values) -> _Values:
        defined = _both(left.defined, right.defined)
        if left.bottom.constant == right.bottom.constant is not None:
            return _Values(act(left.top, right.top), left.bottom, defined)
        tops = checked_arrays.mul(left.top, right.bottom), checked_arrays.mul(right.top, left.bottom)
        return _Values(act(*tops), checked_arrays.mul(left.bottom, right.bottom), defined)

    return acted


class _Points(Fold[_Values, Array | bool]):
    """Evaluates trees at one set of points."""

    def __init__(self, arrays: Arrays) -> None:
        super().__init__()
        self.symbols = {
            name: ints(int(array) if np.ndim(array) == 0 else np.asarray(array)) for name, array in arrays.items()
        }

    def number(self, value: Number) -> _Values:
        return _Values(ints(value.numerator), ints(value.denominator), True)

    def symbol(self, name: str) -> _Values:
        return _Values(self.symbols[name], _ONE, True)

    add = staticmethod(_over_one_denominator(checked_arrays.add))
    least = staticmethod(_over_one_denominator(checked_arrays.least))
    greatest = staticmethod(_over_one_denominator(checked_arrays.greatest))
    both = staticmethod(_both)

    def mul(self, left: _Values, right: _Values) -> _Values:
        bottom = checked_arrays.mul(left.bottom, right.bottom)
        return _Values(checked_arrays.mul(left.top, right.top), bottom, _both(left.defined, right.defined))

    def divide(self, left: _Values, right: _Values) -> _Values:
        nonzero = checked_arrays.nonzero_mask(right.top)
        divisor = checked_arrays.without_zeros(right.top, nonzero)
        top, bottom = checked_arrays.mul(left.top, right.bottom), checked_arrays.mul(left.bottom, divisor)
        if bottom.low < 0:
            sign = ints(-1) if bottom.high < 0 else checked_arrays.choose(np.asarray(bottom.values < 0), ints(-1), _ONE)
            top, bottom = checked_arrays.mul(top, sign), checked_arrays.mul(bottom, sign)
            bottom = Ints(bottom.values, max(1, bottom.low), bottom.high)
        return _Values(top, bottom, _both(nonzero, _both(left.defined, right.defined)))

    def remainder(self, left: _Values, right: _Values) -> _Values:
        if _fractional(left, right):
            return super().remainder(left, right)
        nonzero = checked_arrays.nonzero_mask(right.top)
        divisor = checked_arrays.without_zeros(right.top, nonzero)
        return _Values(checked_arrays.mod(left.top, divisor), _ONE, _both(nonzero, _both(left.defined, right.defined)))

    def floor(self, value: _Values) -> _Values:
        if value.bottom.constant == 1:
            return value
        return _Values(checked_arrays.floordiv(value.top, value.bottom), _ONE, value.defined)

    def trunc(self, value: _Values) -> _Values:
        return _choose(np.asarray(value.top.values >= 0), self.floor(value), self.ceil(value))

    def as_float(self, value: _Values) -> _Values:
        top, bottom = value.top, value.bottom.constant
        if bottom is not None and bottom.bit_count() == 1 and top.low >= -_FLOAT_TO_INT and top.high <= _FLOAT_TO_INT:
            nearest = np.asarray(top.values).astype(np.float64).astype(np.int64)  # that / bottom is a float, too
            return _Values(ints(nearest), value.bottom, value.defined)
        parts = _nearest(*(np.asarray(each.values, dtype=object) for each in (top, value.bottom)))
        tops, bottoms = (ints(np.asarray(part, dtype=object)) for part in parts)
        return _Values(tops, bottoms, value.defined)

    def power(self, base: Expr, exponent: Expr) -> _Values:
        return self.powered(self.expr(base), self.expr(exponent))

    def powered(self, base: _Values, exponent: _Values) -> _Values:
        count = exponent.top.constant
        if count == 1 and exponent.bottom.constant == 2:
            return self.root(base)
        if count is None or exponent.bottom.constant != 1:
            return self.general_power(base, exponent)
        if count < 0:
            return _Values(base.top, base.bottom, False)
        top = base.top.tight()
        if max(abs(top.low), abs(top.high), base.bottom.high).bit_length() * count > MOST_POWER_BITS:
            raise OverflowError("a power is too large to be computed")
        return reduce(self.mul, [base] * count, _Values(_ONE, _ONE, base.defined))

    def root(self, value: _Values) -> _Values:
        parts = _roots(*(np.asarray(each.values, dtype=object) for each in (value.top, value.bottom)))
        top, bottom = (ints(np.asarray(part, dtype=object)) for part in parts)
        return _Values(top, bottom, _both(value.defined, np.asarray(value.top.values >= 0)))

    def general_power(self, base: _Values, exponent: _Values) -> _Values:
        top, bottom = base.top.constant, base.bottom.constant
        number = None if top is None or bottom in (None, 1) else Fraction(top, bottom)
        if _fractional(exponent) or (_fractional(base) and number is None):
            raise OverflowError("a power of fractions is not computed for many points")
        low, high = exponent.top.tight().low, exponent.top.tight().high
        if high > 64:
            raise OverflowError("a power is too large to be computed")
        result = _Values(base.top, _ONE, False)
        for count in range(max(low, 0), high + 1):
            if number is None:
                here = self.powered(base, _Values(ints(count), _ONE, True))
            else:
                value = power_value(number, count)
                here = _Values(ints(value.numerator), ints(value.denominator), base.defined)
            result = _choose(np.asarray(exponent.top.values == count), here, result)
        return _Values(result.top, result.bottom, _both(result.defined, _both(base.defined, exponent.defined)))

    def where(self, holds: Array | bool, fails: Array | bool, then: _Values, otherwise: _Values) -> _Values:
        chosen = _choose(np.asarray(holds), then, otherwise)
        return _Values(chosen.top, chosen.bottom, _both(chosen.defined, self.either(holds, fails)))

    def truth(self, value: bool) -> bool:
        return value

    def compare(self, relation: Relation, left: _Values, right: _Values) -> Array | bool:
        first, second = left.top, right.top
        if left.bottom is not right.bottom and (left.bottom.constant, right.bottom.constant) != (1, 1):
            first, second = checked_arrays.mul(first, right.bottom), checked_arrays.mul(second, left.bottom)
        truth = relation.holds(*checked_arrays.comparable(first, second))
        return _both(np.asarray(truth, dtype=bool), _both(left.defined, right.defined))

    def either(self, left: Array | bool, right: Array | bool) -> Array | bool:
        return np.logical_or(left, right)


def _fractional(*operands: _Values) -> bool:
    return any(operand.bottom.constant != 1 for operand in operands)


def _choose(mask: Array, then: _Values, otherwise: _Values) -> _Values:
    top, bottom = then.top, then.bottom
    if not (then.bottom.constant == otherwise.bottom.constant == 1):
        bottom = checked_arrays.choose(mask, then.bottom, otherwise.bottom)
    top = checked_arrays.choose(mask, then.top, otherwise.top)
    same = then.defined is True and otherwise.defined is True
    return _Values(top, bottom, same or np.where(mask, then.defined, otherwise.defined))
