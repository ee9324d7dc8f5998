"""Computes a size expression by calls that torch can record: on numbers, on SymInts, or as nodes of a graph.

Fractions stay pairs of integers until something rounds them, so that nothing is computed in floating point.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any

import torch

from trtdiag.symbolic.conditions import normalise
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

Call = Callable[..., Any]
"""``call(function, *operands)``: the value of ``function(*operands)``, or a node that will have it."""

_COMPARISONS = {
    Relation.EQ: operator.eq,
    Relation.NE: operator.ne,
    Relation.LT: operator.lt,
    Relation.LE: operator.le,
    Relation.GT: operator.gt,
    Relation.GE: operator.ge,
}


def computed(node: Expr | Condition, symbols: Mapping[str, Any], call: Call) -> Any:
    """The value of an integer expression or a condition; of one that is no integer, the quotient as a float.

    Args:
        node: Denominators in it are positive, as sizes are.
        symbols: The value of each symbol.
        call: Makes one call; calls on plain numbers alone are not made but computed.
    """
    return SizeCalls(symbols, call).value(node)


def call_now(function: Callable[..., Any], *operands: Any) -> Any:
    """The call itself: for numbers and SymInts."""
    return function(*operands)


class SizeCalls:
    """Computes expressions over the same symbols."""

    def __init__(self, symbols: Mapping[str, Any], call: Call) -> None:
        self._symbols = symbols
        self._call_recorded = call

    def value(self, node: Expr | Condition) -> Any:
        """The value of an expression or a condition."""
        if is_condition(node):
            return self._condition(normalise(node))
        top, bottom = self._quotient(node)  # type: ignore[arg-type]  # is_condition says that it is an expression
        return top if _is(bottom, 1) else self._call(operator.truediv, top, bottom)

    def _call(self, function: Callable[..., Any], *operands: Any) -> Any:
        if all(isinstance(operand, int) for operand in operands):
            return function(*operands)
        return self._call_recorded(function, *operands)

    def _quotient(self, node: Expr) -> tuple[Any, Any]:
        """``node`` as numerator and denominator."""
        match node:
            case Num(value):
                exact = Fraction(value)
                return exact.numerator, exact.denominator
            case Sym(name):
                return self._symbols[name], 1
            case Add(args):
                return reduce(self._sum, (self._quotient(arg) for arg in args))
            case Mul(args):
                return reduce(self._product, (self._quotient(arg) for arg in args))
            case TrueDiv(left, right):
                top, bottom = self._quotient(right)
                return self._product(self._quotient(left), (bottom, top))
            case FloorDiv(left, right):
                return self._floor(self._quotient(TrueDiv(left, right))), 1
            case Mod(left, right):
                return self._remainder(left, right)
            case Floor(arg):
                return self._floor(self._quotient(arg)), 1
            case Ceil(arg):
                return self._ceiling(self._quotient(arg)), 1
            case Trunc(arg):
                # Of the rounded-down and the rounded-up one, the one nearer to zero.
                whole = self._quotient(arg)
                if _is(whole[1], 1):
                    return whole
                low = self._call(torch.sym_max, self._floor(whole), 0)
                return self._plus(low, self._call(torch.sym_min, self._ceiling(whole), 0)), 1
            case Pow(base, exponent):
                top, bottom = self._quotient(base)
                times = self.value(exponent)
                raised = 1 if _is(bottom, 1) else self._call(operator.pow, bottom, times)
                return self._call(operator.pow, top, times), raised
            case Min(args):
                return reduce(lambda one, other: self._extreme(torch.sym_min, one, other), map(self._quotient, args))
            case Max(args):
                return reduce(lambda one, other: self._extreme(torch.sym_max, one, other), map(self._quotient, args))
            case Where(condition, then, otherwise):
                return self._choice(condition, self._quotient(then), self._quotient(otherwise))

    def _sum(self, one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
        left, right, bottom = self._over_one(one, other)
        return self._plus(left, right), bottom

    def _product(self, one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
        return self._times(one[0], other[0]), self._times(one[1], other[1])

    def _over_one(self, one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any, Any]:
        """Both numerators over a common denominator."""
        if one[1] is other[1] or (isinstance(one[1], int) and one[1] == other[1]):
            return one[0], other[0], one[1]
        return self._times(one[0], other[1]), self._times(other[0], one[1]), self._times(one[1], other[1])

    def _floor(self, quotient: tuple[Any, Any]) -> Any:
        top, bottom = quotient
        return top if _is(bottom, 1) else self._call(operator.floordiv, top, bottom)

    def _ceiling(self, quotient: tuple[Any, Any]) -> Any:
        top, bottom = quotient
        if _is(bottom, 1):
            return top
        return self._call(operator.neg, self._floor((self._call(operator.neg, top), bottom)))

    def _remainder(self, left: Expr, right: Expr) -> tuple[Any, Any]:
        one, other, bottom = self._over_one(self._quotient(left), self._quotient(right))
        return self._call(operator.mod, one, other), bottom

    def _extreme(self, function: Call, one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
        left, right, bottom = self._over_one(one, other)
        return self._call(function, left, right), bottom

    def _choice(self, condition: Condition, then: tuple[Any, Any], otherwise: tuple[Any, Any]) -> tuple[Any, Any]:
        test = self._condition(normalise(condition))
        if isinstance(test, bool):
            return then if test else otherwise
        left, right, bottom = self._over_one(then, otherwise)
        return self._call_recorded(torch.sym_ite, test, left, right), bottom

    def _condition(self, condition: Condition) -> Any:
        match condition:
            case Truth(value):
                return value
            case Compare(relation, left, right):
                one, other, _ = self._over_one(self._quotient(left), self._quotient(right))
                return self._call(_COMPARISONS[relation], one, other)
            case And(args):
                return reduce(self._both, (self._condition(arg) for arg in args))
            case Or(args):
                return reduce(self._either, (self._condition(arg) for arg in args))
            case Not(arg):
                test = self._condition(arg)
                return not test if isinstance(test, bool) else self._call_recorded(torch.sym_not, test)

    def _both(self, one: Any, other: Any) -> Any:
        if isinstance(one, bool) or isinstance(other, bool):
            return (other if one else one) if isinstance(one, bool) else (one if other else other)
        return self._call_recorded(operator.and_, one, other)

    def _either(self, one: Any, other: Any) -> Any:
        if isinstance(one, bool) or isinstance(other, bool):
            return (one if one else other) if isinstance(one, bool) else (other if other else one)
        return self._call_recorded(operator.or_, one, other)

    def _plus(self, one: Any, other: Any) -> Any:
        if _is(one, 0) or _is(other, 0):
            return other if _is(one, 0) else one
        return self._call(operator.add, one, other)

    def _times(self, one: Any, other: Any) -> Any:
        if _is(one, 1) or _is(other, 1):
            return other if _is(one, 1) else one
        return self._call(operator.mul, one, other)


def _is(value: Any, number: int) -> bool:
    # A SymInt or a node is not asked: comparing would record a guard.
    return isinstance(value, int) and value == number
