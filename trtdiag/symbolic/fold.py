"""One walk over expressions and conditions for all that gives them a meaning from the bottom up."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Generic, TypeVar

from trtdiag.symbolic.conditions import negate
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
    Num,
    Or,
    Pow,
    Sym,
    TrueDiv,
    Trunc,
    Truth,
    Where,
)
from trtdiag.symbolic.float_factors import computes_with_quotient, is_quotient, rounds

Value = TypeVar("Value")
Held = TypeVar("Held")


class Fold(Generic[Value, Held]):
    """Gives every expression a ``Value`` and every condition a ``Held``; what occurs twice is computed once.

    A subclass says what the operations are; ``compute`` and ``condition`` may be overridden for single kinds of nodes.
    An expression is ``number(value)``, ``symbol(name)``, ``add(left, right)``, ``mul(left, right)``,
    ``divide(left, right)``, ``least(left, right)``, ``greatest(left, right)``, ``power(base, exponent)`` of two nodes,
    ``floor(value)``, ``trunc(value)``, ``where(holds, fails, then, otherwise)``, or ``as_float(value)`` where it is
    rounded and floats differ from fractions; a condition is ``truth(value)``, ``compare(relation, left, right)``,
    ``both(left, right)`` or ``either(left, right)``.
    """

    number: Callable[..., Value]
    symbol: Callable[..., Value]
    add: Callable[..., Value]
    mul: Callable[..., Value]
    divide: Callable[..., Value]
    least: Callable[..., Value]
    greatest: Callable[..., Value]
    power: Callable[..., Value]
    floor: Callable[..., Value]
    trunc: Callable[..., Value]
    as_float: Callable[..., Value]
    where: Callable[..., Value]
    truth: Callable[..., Held]
    compare: Callable[..., Held]
    both: Callable[..., Held]
    either: Callable[..., Held]

    def __init__(self) -> None:
        self.known: dict[Expr, Value] = {}

    def expr(self, expr: Expr) -> Value:
        """The meaning of an expression."""
        found = self.known.get(expr)
        if found is None:
            found = self.known[expr] = self.compute(expr)
        return found

    def compute(self, expr: Expr) -> Value:
        """The meaning of an expression, from those of its operands."""
        match expr:
            case Num(value):
                return self.number(value)
            case Sym(name):
                return self.symbol(name)
            case Add(args):
                return reduce(self.add, map(self.reader(expr), args))
            case Mul(args):
                return reduce(self.mul, map(self.reader(expr), args))
            case Min(args):
                return reduce(self.least, map(self.expr, args))
            case Max(args):
                return reduce(self.greatest, map(self.expr, args))
            case FloorDiv(left, right):
                return self.quotient(self.expr(left), self.expr(right))
            case Mod(left, right):
                return self.remainder(self.expr(left), self.expr(right))
            case TrueDiv(left, right):
                return self.divide(*map(self.reader(expr), (left, right)))
            case Pow(base, exponent):
                return self.power(base, exponent)
            case Floor(arg):
                return self.floor(self.before_rounding(arg))
            case Ceil(arg):
                return self.ceil(self.before_rounding(arg))
            case Trunc(arg):
                return self.trunc(self.before_rounding(arg))
            case Where(condition, then, otherwise):
                holds, fails = self.condition(condition), self.condition(negate(condition))
                return self.where(holds, fails, self.expr(then), self.expr(otherwise))

    def condition(self, condition: Condition) -> Held:
        """The meaning of a condition."""
        match condition:
            case Truth(value):
                return self.truth(value)
            case Compare(relation, left, right):
                return self.compare(relation, self.expr(left), self.expr(right))
            case And(args):
                return reduce(self.both, map(self.condition, args))
            case Or(args):
                return reduce(self.either, map(self.condition, args))

    def reader(self, expr: Expr) -> Callable[[Expr], Value]:
        """What gives the operands of ``expr``: it takes quotients as floats where it computes with one."""
        return self.quotient_as_float if computes_with_quotient(expr) else self.expr

    def quotient_as_float(self, expr: Expr) -> Value:
        """The value of an operand, a float where that is a quotient."""
        value = self.expr(expr)
        return self.as_float(value) if is_quotient(expr) else value

    def before_rounding(self, expr: Expr) -> Value:
        """What is rounded to an integer: PyTorch has it as a float."""
        value = self.expr(expr)
        return self.as_float(value) if rounds(expr) else value

    def negated(self, value: Value, /) -> Value:
        """``-value``."""
        return self.mul(self.number(-1), value)

    def ceil(self, value: Value, /) -> Value:
        """The least integer not below ``value``."""
        return self.negated(self.floor(self.negated(value)))

    def quotient(self, left: Value, right: Value, /) -> Value:
        """``left // right``, rounded towards minus infinity."""
        return self.floor(self.divide(left, right))

    def remainder(self, left: Value, right: Value, /) -> Value:
        """``left % right`` with the sign of ``right``."""
        return self.add(left, self.negated(self.mul(right, self.quotient(left, right))))
