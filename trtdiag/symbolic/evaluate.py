"""Exact values of expressions and conditions at one point.

Trees are compiled once to nested closures, so that evaluating at many points costs little.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache, reduce
from math import ceil, floor, trunc

from trtdiag.symbolic.build import Number
from trtdiag.symbolic.conditions import negate, normalise
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
from trtdiag.symbolic.tree import is_condition

Values = Mapping[str, int]
_Get = Callable[[Values], Number]
_Test = Callable[[Values], bool]

_ROUNDINGS: dict[type, Callable[..., int]] = {Floor: floor, Ceil: ceil, Trunc: trunc}
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


def _integral(value: Number) -> Number:
    return value.numerator if value.denominator == 1 else value


def power_value(base: Number, exponent: Number) -> Number:
    """``base ** exponent``; the exponent must be an integer of zero or more.

    Raises:
        OverflowError: The result would be huge.
        ZeroDivisionError: The exponent is negative, where ``Pow`` has no value.
    """
    if exponent < 0 or exponent.denominator != 1:
        raise ZeroDivisionError("a power is defined for integers of zero or more only")
    bits = max(abs(base.numerator), base.denominator).bit_length()
    if bits > 1 and bits * exponent > MOST_POWER_BITS:
        raise OverflowError(f"{base} ** {exponent} is too large")
    return base ** int(exponent)


@lru_cache(maxsize=1 << 13)
def compiled_expr(expr: Expr) -> _Get:
    """A function from values to the value of ``expr``."""
    match expr:
        case Num(value):
            return lambda _: value
        case Sym(name):
            return lambda values: values[name]
        case Add(args):
            return _folded(operator.add, [compiled_expr(arg) for arg in args])
        case Mul(args):
            return _folded(operator.mul, [compiled_expr(arg) for arg in args])
        case Min(args) | Max(args):
            gets = [compiled_expr(arg) for arg in args]
            pick: Callable[..., Number] = min if isinstance(expr, Min) else max
            return lambda values: pick(get(values) for get in gets)
        case FloorDiv(left, right):
            top, bottom = compiled_expr(left), compiled_expr(right)
            return lambda values: top(values) // bottom(values)
        case Mod(left, right):
            top, bottom = compiled_expr(left), compiled_expr(right)
            return lambda values: _integral(top(values) % bottom(values))
        case TrueDiv(left, right):
            top, bottom = compiled_expr(left), compiled_expr(right)
            return lambda values: _integral(Fraction(top(values)) / bottom(values))
        case Pow(base, exponent):
            root, height = compiled_expr(base), compiled_expr(exponent)
            return lambda values: power_value(root(values), height(values))
        case Floor(arg) | Ceil(arg) | Trunc(arg):
            inner = compiled_expr(arg)
            rounding = _ROUNDINGS[type(expr)]
            return lambda values: rounding(inner(values))
        case Where(condition, then, otherwise):
            return _choice(condition, compiled_expr(then), compiled_expr(otherwise))


def _folded(act: Callable[[Number, Number], Number], gets: list[_Get]) -> _Get:
    first, second, *others = gets
    if not others:
        return lambda values: _integral(act(first(values), second(values)))
    return lambda values: _integral(reduce(act, [get(values) for get in gets]))


def _choice(condition: Condition, then: _Get, otherwise: _Get) -> _Get:
    test, fails = compiled_condition(condition), compiled_condition(negate(condition))

    def get(values: Values) -> Number:
        if test(values):
            return then(values)
        if fails(values):
            return otherwise(values)
        raise ZeroDivisionError("the condition of a choice is not defined")

    return get


@lru_cache(maxsize=1 << 13)
def compiled_condition(condition: Condition) -> _Test:
    """A function from values to whether ``condition`` holds there."""
    match condition:
        case Truth(value):
            return lambda _: value
        case Compare(relation, left, right):
            return _comparison(relation, compiled_expr(left), compiled_expr(right))
        case And(args):
            tests = [compiled_condition(arg) for arg in args]
            return lambda values: all(test(values) for test in tests)
        case Or(args):
            tests = [compiled_condition(arg) for arg in args]
            return lambda values: any(test(values) for test in tests)
        case Not():
            return compiled_condition(normalise(condition))


def _comparison(relation: Relation, left: _Get, right: _Get) -> _Test:
    compared = relation.holds

    def test(values: Values) -> bool:
        try:
            return bool(compared(left(values), right(values)))
        except ZeroDivisionError:
            return False

    return test
