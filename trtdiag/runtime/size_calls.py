"""Computes a size expression by calls that torch can record: on numbers, on SymInts, or as nodes of a graph.

Fractions stay pairs of integers until something rounds them, so that nothing is computed in floating point but what
the program has there itself.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch

from trtdiag.symbolic import is_condition, normalise
from trtdiag.symbolic.build import Number
from trtdiag.symbolic.expr import Ceil, Condition, Expr, Floor, FloorDiv, Num, Relation, TrueDiv, Trunc, Where
from trtdiag.symbolic.float_factors import HALF, rounds
from trtdiag.symbolic.fold import Fold

Call = Callable[..., Any]
"""``call(function, *operands)``: the value of ``function(*operands)``, or a node that will have it."""
Quotient = tuple[Any, Any]
"""Numerator and denominator."""
_ROUNDING: dict[type, Call] = {Floor: math.floor, Ceil: math.ceil, Trunc: math.trunc}


def computed(node: Expr | Condition, symbols: Mapping[str, Any], call: Call) -> Any:
    """The value of an integer expression or a condition; of one that is no integer, the quotient as a float.

    Args:
        node: Denominators in it are positive, as sizes are.
        symbols: The value of each symbol.
        call: Makes one call; calls on plain numbers alone are not made but computed.
    """
    return _SizeCalls(symbols, call).value(node)


def call_now(function: Callable[..., Any], *operands: Any) -> Any:
    """The call itself: for numbers and SymInts."""
    return function(*operands)


class _SizeCalls(Fold[Quotient, Any]):
    """Computes expressions over the same symbols."""

    def __init__(self, symbols: Mapping[str, Any], call: Call) -> None:
        super().__init__()
        self.symbols = symbols
        self.recorded = call

    def value(self, node: Expr | Condition) -> Any:
        if is_condition(node):
            return self.condition(normalise(node))
        top, bottom = self.expr(node)  # type: ignore[arg-type]  # is_condition says that it is an expression
        return top if _is(bottom, 1) else self.call(operator.truediv, top, bottom)

    def call(self, function: Callable[..., Any], *operands: Any) -> Any:
        if all(isinstance(operand, int | float) for operand in operands):
            return function(*operands)
        return self.recorded(function, *operands)

    def expr(self, expr: Expr) -> Quotient:
        return self.compute(expr)  # what occurs twice is recorded twice

    def compute(self, expr: Expr) -> Quotient:
        match expr:
            case TrueDiv(left, right) | FloorDiv(left, right):
                top, bottom = self.expr(right)
                whole = self.mul(self.expr(left), (bottom, top))
                return whole if isinstance(expr, TrueDiv) else self.floor(whole)
            case Floor(arg) | Ceil(arg) | Trunc(arg) if rounds(arg):
                return self.call(_ROUNDING[type(expr)], self.call(operator.truediv, *self.expr(arg))), 1
            case Where(condition, then, otherwise):
                return self.choice(condition, self.expr(then), self.expr(otherwise))
            case _:
                return super().compute(expr)

    def number(self, value: Number) -> Quotient:
        return value.numerator, value.denominator

    def symbol(self, name: str) -> Quotient:
        return self.symbols[name], 1

    def add(self, left: Quotient, right: Quotient) -> Quotient:
        one, other, bottom = self.over_one(left, right)
        return self.unless(0, operator.add, one, other), bottom

    def mul(self, left: Quotient, right: Quotient) -> Quotient:
        return self.times(left[0], right[0]), self.times(left[1], right[1])

    def as_float(self, value: Quotient) -> Quotient:
        return self.call(operator.truediv, *value), 1

    def least(self, left: Quotient, right: Quotient) -> Quotient:
        return self.over_one_call(torch.sym_min, left, right)

    def greatest(self, left: Quotient, right: Quotient) -> Quotient:
        return self.over_one_call(torch.sym_max, left, right)

    def remainder(self, left: Quotient, right: Quotient) -> Quotient:
        return self.over_one_call(operator.mod, left, right)

    def power(self, base: Expr, exponent: Expr) -> Quotient:
        top, bottom = self.expr(base)
        if exponent == Num(HALF):
            return self.call(operator.pow, self.call(operator.truediv, top, bottom), 0.5), 1
        times = self.value(exponent)
        raised = 1 if _is(bottom, 1) else self.call(operator.pow, bottom, times)
        return self.call(operator.pow, top, times), raised

    def floor(self, value: Quotient) -> Quotient:
        top, bottom = value
        return value if _is(bottom, 1) else (self.call(operator.floordiv, top, bottom), 1)

    def negated(self, value: Quotient) -> Quotient:
        return self.call(operator.neg, value[0]), value[1]

    def ceil(self, value: Quotient) -> Quotient:
        return value if _is(value[1], 1) else super().ceil(value)

    def trunc(self, value: Quotient) -> Quotient:
        if _is(value[1], 1):
            return value
        # Of the rounded-down and the rounded-up one, the one nearer to zero.
        low = self.call(torch.sym_max, self.floor(value)[0], 0)
        return self.unless(0, operator.add, low, self.call(torch.sym_min, self.ceil(value)[0], 0)), 1

    def choice(self, condition: Condition, then: Quotient, otherwise: Quotient) -> Quotient:
        test = self.condition(normalise(condition))
        if isinstance(test, bool):
            return then if test else otherwise
        left, right, bottom = self.over_one(then, otherwise)
        return self.recorded(torch.sym_ite, test, left, right), bottom

    def truth(self, value: bool) -> bool:
        return value

    def compare(self, relation: Relation, left: Quotient, right: Quotient) -> Any:
        one, other, _ = self.over_one(left, right)
        return self.call(relation.holds, one, other)

    def both(self, left: Any, right: Any) -> Any:
        if isinstance(left, bool) or isinstance(right, bool):
            return (right if left else left) if isinstance(left, bool) else (left if right else right)
        return self.recorded(operator.and_, left, right)

    def either(self, left: Any, right: Any) -> Any:
        if isinstance(left, bool) or isinstance(right, bool):
            return (left if left else right) if isinstance(left, bool) else (right if right else left)
        return self.recorded(operator.or_, left, right)

    def over_one(self, one: Quotient, other: Quotient) -> tuple[Any, Any, Any]:
        """Both numerators over a common denominator."""
        if one[1] is other[1] or (isinstance(one[1], int) and one[1] == other[1]):
            return one[0], other[0], one[1]
        return self.times(one[0], other[1]), self.times(other[0], one[1]), self.times(one[1], other[1])

    def over_one_call(self, function: Call, left: Quotient, right: Quotient) -> Quotient:
        one, other, bottom = self.over_one(left, right)
        return self.call(function, one, other), bottom

    def times(self, one: Any, other: Any) -> Any:
        return self.unless(1, operator.mul, one, other)

    def unless(self, neutral: int, function: Call, one: Any, other: Any) -> Any:
        """The call, but for operands that change nothing."""
        if _is(one, neutral) or _is(other, neutral):
            return other if _is(one, neutral) else one
        return self.call(function, one, other)


def _is(value: Any, number: int) -> bool:
    # A SymInt or a node is not asked: comparing would record a guard.
    return isinstance(value, int) and value == number
