"""Exact values of expressions and conditions at one point.

Trees are compiled once to nested closures, so that evaluating at many points costs little.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, trunc
from typing import Any

from trtdiag.symbolic.build import Number
from trtdiag.symbolic.expr import Condition, Expr, Relation
from trtdiag.symbolic.float_factors import HALF, as_float, root_of
from trtdiag.symbolic.fold import Fold
from trtdiag.symbolic.tree import is_condition

Values = Mapping[str, int]
_Get = Callable[[Values], Number]
_Test = Callable[[Values], bool]

MOST_POWER_BITS = 1 << 14  # a larger power is refused: no size comes near


def evaluate(node: Expr | Condition, values: Values) -> int | Fraction | bool:
    """The value of ``node`` where each symbol has its value.

    A condition that is not defined there is False, as the program would raise (see ``conditions``).

    Raises:
        KeyError: A symbol has no value.
        ZeroDivisionError: An expression divides by zero there.
        OverflowError: A power is too large to be computed.
    """
    if is_condition(node):
        return compiled_condition(node)(values)
    return compiled_expr(node)(values)


def holds(condition: Condition, values: Values) -> bool:
    """Whether ``condition`` is defined and true there."""
    return compiled_condition(condition)(values)


def power_value(base: Number, exponent: Number) -> Number:
    """``base ** exponent``, the float next to it where that is no integer; the exponent is one, from 0 on, or a half.

    Raises:
        OverflowError: The result would be huge.
        ZeroDivisionError: The exponent is negative, where ``Pow`` has no value.
    """
    if exponent == HALF:
        return root_of(base)
    if exponent < 0 or exponent.denominator != 1:
        raise ZeroDivisionError("a power is defined for integers of zero or more only")
    bits = max(abs(base.numerator), base.denominator).bit_length()
    if bits > 1 and bits * exponent > MOST_POWER_BITS:
        raise OverflowError(f"{base} ** {exponent} is too large")
    power = base ** int(exponent)
    return power if power.denominator == 1 else as_float(power)


@lru_cache(maxsize=1 << 13)
def compiled_expr(expr: Expr) -> _Get:
    """A function from values to the value of ``expr``."""
    return _COMPILER.compute(expr)


@lru_cache(maxsize=1 << 13)
def compiled_condition(condition: Condition) -> _Test:
    """A function from values to whether ``condition`` holds there."""
    return Fold.condition(_COMPILER, condition)


def _of_two(act: Callable[[Any, Any], Number]) -> Callable[[_Get, _Get], _Get]:
    def compiled(left: _Get, right: _Get) -> _Get:
        def get(values: Values) -> Number:
            found = act(left(values), right(values))
            return found.numerator if type(found) is not int and found.denominator == 1 else found

        return get

    return compiled


def _of_one(act: Callable[[Any], Number]) -> Callable[[_Get], _Get]:
    return lambda inner: lambda values: act(inner(values))


class _Compiler(Fold[_Get, _Test]):
    expr = staticmethod(compiled_expr)  # what occurs in several trees is compiled once
    condition = staticmethod(compiled_condition)
    add = staticmethod(_of_two(operator.add))
    mul = staticmethod(_of_two(operator.mul))
    least = staticmethod(_of_two(min))
    greatest = staticmethod(_of_two(max))
    quotient = staticmethod(_of_two(operator.floordiv))
    remainder = staticmethod(_of_two(operator.mod))
    divide = staticmethod(_of_two(lambda top, bottom: Fraction(top) / bottom))
    floor = staticmethod(_of_one(floor))
    ceil = staticmethod(_of_one(ceil))
    trunc = staticmethod(_of_one(trunc))
    as_float = staticmethod(_of_one(as_float))
    symbol = staticmethod(operator.itemgetter)

    def number(self, value: Number) -> _Get:
        return lambda _: value

    def power(self, base: Expr, exponent: Expr) -> _Get:
        return _of_two(power_value)(compiled_expr(base), compiled_expr(exponent))

    def where(self, holds: _Test, fails: _Test, then: _Get, otherwise: _Get) -> _Get:
        def get(values: Values) -> Number:
            if holds(values):
                return then(values)
            if fails(values):
                return otherwise(values)
            raise ZeroDivisionError("the condition of a choice is not defined")

        return get

    def truth(self, value: bool) -> _Test:
        return lambda _: value

    def compare(self, relation: Relation, left: _Get, right: _Get) -> _Test:
        compared = relation.holds

        def test(values: Values) -> bool:
            try:
                return bool(compared(left(values), right(values)))
            except ZeroDivisionError:
                return False

        return test

    def both(self, left: _Test, right: _Test) -> _Test:
        return lambda values: left(values) and right(values)

    def either(self, left: _Test, right: _Test) -> _Test:
        return lambda values: left(values) or right(values)


_COMPILER = _Compiler()
