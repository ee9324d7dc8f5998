"""Exact values of expressions and conditions at many points at once, over numpy arrays.

A value is a numerator over a positive denominator (both exact integers, see ``checked``) and a mask of the points
where it is defined: dividing by zero leaves a point undefined, and a condition is False there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from trtdiag.symbolic import checked_arrays
from trtdiag.symbolic.checked_arrays import Array, Ints, ints
from trtdiag.symbolic.conditions import negate, normalise
from trtdiag.symbolic.evaluate import MOST_POWER_BITS
from trtdiag.symbolic.expr import (
    Add,
    And,
    Ceil,
    Compare,
    Condition,
    Expr,
    Floor,
    FloorDiv,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Num,
    Or,
    Pow,
    Relation,
    Sym,
    TrueDiv,
    Trunc,
    Truth,
    Where,
)
from trtdiag.symbolic.ranges import Range

Arrays = Mapping[str, Any]
Mask = npt.NDArray[np.bool_]
_ONE = ints(1)


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


class _Points:
    """Evaluates trees at one set of points; a subtree that occurs twice is computed once."""

    def __init__(self, arrays: Arrays) -> None:
        self.symbols = {
            name: ints(int(array) if np.ndim(array) == 0 else np.asarray(array)) for name, array in arrays.items()
        }
        self.known: dict[Expr, _Values] = {}

    def expr(self, expr: Expr) -> _Values:
        found = self.known.get(expr)
        if found is None:
            found = self.known[expr] = self.compute(expr)
        return found

    def compute(self, expr: Expr) -> _Values:
        match expr:
            case Num(value):
                return _Values(ints(value.numerator), ints(value.denominator), True)
            case Sym(name):
                return _Values(self.symbols[name], _ONE, True)
            case Add(args):
                return reduce(_add, map(self.expr, args))
            case Mul(args):
                return reduce(_mul, map(self.expr, args))
            case Min(args):
                return reduce(lambda a, b: _extreme(a, b, checked_arrays.least), map(self.expr, args))
            case Max(args):
                return reduce(lambda a, b: _extreme(a, b, checked_arrays.greatest), map(self.expr, args))
            case FloorDiv(left, right):
                return _floor(_divide(self.expr(left), self.expr(right)))
            case Mod(left, right):
                top, bottom = self.expr(left), self.expr(right)
                return (
                    _add(top, _negated(_mul(bottom, _floor(_divide(top, bottom)))))
                    if _fractional(top, bottom)
                    else _remainder(top, bottom)
                )
            case TrueDiv(left, right):
                return _divide(self.expr(left), self.expr(right))
            case Pow(base, exponent):
                return self.power(self.expr(base), self.expr(exponent))
            case Floor(arg):
                return _floor(self.expr(arg))
            case Ceil(arg):
                return _negated(_floor(_negated(self.expr(arg))))
            case Trunc(arg):
                inner = self.expr(arg)
                down, up = _floor(inner), _negated(_floor(_negated(inner)))
                return _choose(np.asarray(inner.top.values >= 0), down, up)
            case Where(condition, then, otherwise):
                return self.where(condition, then, otherwise)

    def power(self, base: _Values, exponent: _Values) -> _Values:
        count = exponent.top.constant
        if count is None or exponent.bottom.constant != 1:
            return self.general_power(base, exponent)
        if count < 0:
            return _Values(base.top, base.bottom, False)
        top = base.top.tight()
        if max(abs(top.low), abs(top.high), base.bottom.high).bit_length() * count > MOST_POWER_BITS:
            raise OverflowError("a power is too large to be computed")
        result = _Values(_ONE, _ONE, base.defined)
        for _ in range(count):
            result = _mul(result, base)
        return result

    def general_power(self, base: _Values, exponent: _Values) -> _Values:
        if _fractional(base, exponent):
            raise OverflowError("a power of fractions is not computed for many points")
        low, high = exponent.top.tight().low, exponent.top.tight().high
        if high > 64:
            raise OverflowError("a power is too large to be computed")
        result = _Values(base.top, _ONE, False)
        for count in range(max(low, 0), high + 1):
            here = self.power(base, _Values(ints(count), _ONE, True))
            result = _choose(np.asarray(exponent.top.values == count), here, result)
        return _Values(result.top, result.bottom, _both(result.defined, _both(base.defined, exponent.defined)))

    def where(self, condition: Condition, then: Expr, otherwise: Expr) -> _Values:
        holds, fails = self.condition(condition), self.condition(negate(condition))
        chosen = _choose(np.asarray(holds), self.expr(then), self.expr(otherwise))
        return _Values(chosen.top, chosen.bottom, _both(chosen.defined, np.asarray(holds) | np.asarray(fails)))

    def condition(self, condition: Condition) -> Array | bool:
        match condition:
            case Truth(value):
                return value
            case Compare(relation, left, right):
                return self.compare(relation, self.expr(left), self.expr(right))
            case And(args):
                return reduce(_both, map(self.condition, args))
            case Or(args):
                return reduce(lambda a, b: np.asarray(a) | np.asarray(b), map(self.condition, args))
            case Not():
                return self.condition(normalise(condition))

    @staticmethod
    def compare(relation: Relation, left: _Values, right: _Values) -> Array | bool:
        first, second = left.top, right.top
        if left.bottom is not right.bottom and (left.bottom.constant, right.bottom.constant) != (1, 1):
            first, second = checked_arrays.mul(first, right.bottom), checked_arrays.mul(second, left.bottom)
        a, b = checked_arrays.comparable(first, second)
        truth: Array | bool
        match relation:
            case Relation.EQ:
                truth = a == b
            case Relation.NE:
                truth = a != b
            case Relation.LT:
                truth = a < b
            case Relation.LE:
                truth = a <= b
            case Relation.GT:
                truth = a > b
            case Relation.GE:
                truth = a >= b
        return _both(np.asarray(truth, dtype=bool), _both(left.defined, right.defined))


def _both(left: Array | bool, right: Array | bool) -> Array | bool:
    if left is True:
        return right
    return left if right is True else np.asarray(left) & np.asarray(right)


def _fractional(*operands: _Values) -> bool:
    return any(operand.bottom.constant != 1 for operand in operands)


def _add(left: _Values, right: _Values) -> _Values:
    defined = _both(left.defined, right.defined)
    if left.bottom.constant == right.bottom.constant is not None:
        return _Values(checked_arrays.add(left.top, right.top), left.bottom, defined)
    top = checked_arrays.add(checked_arrays.mul(left.top, right.bottom), checked_arrays.mul(right.top, left.bottom))
    return _Values(top, checked_arrays.mul(left.bottom, right.bottom), defined)


def _mul(left: _Values, right: _Values) -> _Values:
    bottom = checked_arrays.mul(left.bottom, right.bottom)
    return _Values(checked_arrays.mul(left.top, right.top), bottom, _both(left.defined, right.defined))


def _negated(value: _Values) -> _Values:
    return _Values(checked_arrays.mul(value.top, ints(-1)), value.bottom, value.defined)


def _extreme(left: _Values, right: _Values, pick: Any) -> _Values:
    defined = _both(left.defined, right.defined)
    if left.bottom.constant == right.bottom.constant is not None:
        return _Values(pick(left.top, right.top), left.bottom, defined)
    tops = checked_arrays.mul(left.top, right.bottom), checked_arrays.mul(right.top, left.bottom)
    return _Values(pick(*tops), checked_arrays.mul(left.bottom, right.bottom), defined)


def _divide(left: _Values, right: _Values) -> _Values:
    nonzero = checked_arrays.nonzero_mask(right.top)
    divisor = checked_arrays.without_zeros(right.top, nonzero)
    top, bottom = checked_arrays.mul(left.top, right.bottom), checked_arrays.mul(left.bottom, divisor)
    if bottom.low < 0:
        sign = ints(-1) if bottom.high < 0 else checked_arrays.choose(np.asarray(bottom.values < 0), ints(-1), _ONE)
        top, bottom = checked_arrays.mul(top, sign), checked_arrays.mul(bottom, sign)
        bottom = Ints(bottom.values, max(1, bottom.low), bottom.high)
    return _Values(top, bottom, _both(nonzero, _both(left.defined, right.defined)))


def _remainder(left: _Values, right: _Values) -> _Values:
    nonzero = checked_arrays.nonzero_mask(right.top)
    divisor = checked_arrays.without_zeros(right.top, nonzero)
    return _Values(checked_arrays.mod(left.top, divisor), _ONE, _both(nonzero, _both(left.defined, right.defined)))


def _floor(value: _Values) -> _Values:
    if value.bottom.constant == 1:
        return value
    return _Values(checked_arrays.floordiv(value.top, value.bottom), _ONE, value.defined)


def _choose(mask: Array, then: _Values, otherwise: _Values) -> _Values:
    top, bottom = then.top, then.bottom
    if not (then.bottom.constant == otherwise.bottom.constant == 1):
        bottom = checked_arrays.choose(mask, then.bottom, otherwise.bottom)
    top = checked_arrays.choose(mask, then.top, otherwise.top)
    same = then.defined is True and otherwise.defined is True
    return _Values(top, bottom, same or np.where(mask, then.defined, otherwise.defined))
