"""Smart constructors of conditions, negation and substitution.

A condition *holds* at values where every comparison that it needs is defined and true.  A comparison that divides by
zero is neither true nor false (the model would raise there), and neither is its negation.  Canonical conditions have
no ``Not``: it is pushed down to the comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, gcd, lcm
from typing import overload

from trtdiag.symbolic import build
from trtdiag.symbolic.build import Number, as_expr, linear_terms, mul, sub
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
from trtdiag.symbolic.tree import is_integer, is_total, order_key

Replace = Callable[[Expr], Expr | None]
"""Gives what stands for a part of an expression, or ``None`` where it stays."""

TRUE = Truth(True)
FALSE = Truth(False)

FLIPPED = {
    Relation.EQ: Relation.EQ,
    Relation.NE: Relation.NE,
    Relation.LT: Relation.GT,
    Relation.LE: Relation.GE,
    Relation.GT: Relation.LT,
    Relation.GE: Relation.LE,
}
_NEGATED = {
    Relation.EQ: Relation.NE,
    Relation.NE: Relation.EQ,
    Relation.LT: Relation.GE,
    Relation.LE: Relation.GT,
    Relation.GT: Relation.LE,
    Relation.GE: Relation.LT,
}


def relation_holds(relation: Relation, left: Number, right: Number) -> bool:
    """Whether ``left <relation> right`` for two numbers."""
    match relation:
        case Relation.EQ:
            return left == right
        case Relation.NE:
            return left != right
        case Relation.LT:
            return left < right
        case Relation.LE:
            return left <= right
        case Relation.GT:
            return left > right
        case Relation.GE:
            return left >= right


def compare(relation: Relation, left: Expr | Number, right: Expr | Number) -> Condition:
    """``left <relation> right`` with terms collected, common factors removed and the constant on the right."""
    difference = sub(as_expr(left), as_expr(right))
    if isinstance(difference, Num):
        return Truth(relation_holds(relation, difference.value, 0))
    terms, constant = linear_terms(difference)
    integral = all(is_integer(rest) for _, rest in terms)
    factor = lcm(constant.denominator if not integral else 1, *(part.denominator for part, _ in terms))
    shared = gcd(*(int(part * factor) for part, _ in terms)) or 1
    if next((part for part, _ in terms if part != 0), 1) < 0:
        shared, relation = -shared, FLIPPED[relation]
    scaled = [(int(part * factor) // shared, rest) for part, rest in terms]
    bound: Number = -Fraction(constant) * factor / shared
    if integral:
        if relation in (Relation.EQ, Relation.NE):
            if bound.denominator != 1 and is_total(difference):
                return Truth(relation is Relation.NE)
        elif relation in (Relation.GE, Relation.GT):
            bound = ceil(bound) if relation is Relation.GE else floor(bound) + 1
            relation = Relation.GE
        else:
            bound = floor(bound) if relation is Relation.LE else ceil(bound) - 1
            relation = Relation.LE
    positive = build.add(0, *(mul(part, rest) for part, rest in scaled if part >= 0))
    negative = build.add(bound, *(mul(-part, rest) for part, rest in scaled if part < 0))
    return Compare(relation, positive, negative)


def all_of(conditions: Iterable[Condition]) -> Condition:
    """The condition that all of ``conditions`` hold."""
    return _junction(And, conditions, neutral=True)


def any_of(conditions: Iterable[Condition]) -> Condition:
    """The condition that at least one of ``conditions`` holds."""
    return _junction(Or, conditions, neutral=False)


def _junction(kind: type[And | Or], conditions: Iterable[Condition], *, neutral: bool) -> Condition:
    kept: set[Condition] = set()
    for condition in conditions:
        for part in condition.args if isinstance(condition, kind) else (condition,):
            if not isinstance(part, Truth):
                kept.add(part)
            elif part.value is not neutral:
                return Truth(not neutral)
    if not kept:
        return Truth(neutral)
    ordered = sorted(kept, key=order_key)
    return ordered[0] if len(ordered) == 1 else kind(tuple(ordered))


def negate(condition: Condition) -> Condition:
    """The condition that ``condition`` is defined and does not hold."""
    match condition:
        case Truth(value):
            return Truth(not value)
        case Not(arg):
            return normalise(arg)
        case Compare(relation, left, right):
            return compare(_NEGATED[relation], left, right)
        case And(args):
            return any_of(negate(arg) for arg in args)
        case Or(args):
            return all_of(negate(arg) for arg in args)


def conjuncts(condition: Condition) -> tuple[Condition, ...]:
    """The conditions that must all hold; an ``And`` taken apart."""
    return condition.args if isinstance(condition, And) else (condition,)


def transform_expr(expr: Expr, replace: Replace) -> Expr:
    """``expr`` with every part for which ``replace`` gives another one replaced, outermost first, in normal form."""
    other = replace(expr)
    if other is not None:
        return other
    match expr:
        case Num() | Sym():
            return expr
        case Add(args):
            return build.add(*(transform_expr(arg, replace) for arg in args))
        case Mul(args):
            return build.mul(*(transform_expr(arg, replace) for arg in args))
        case Min(args):
            return build.minimum(*(transform_expr(arg, replace) for arg in args))
        case Max(args):
            return build.maximum(*(transform_expr(arg, replace) for arg in args))
        case FloorDiv(left, right):
            return build.floordiv(transform_expr(left, replace), transform_expr(right, replace))
        case Mod(left, right):
            return build.mod(transform_expr(left, replace), transform_expr(right, replace))
        case TrueDiv(left, right):
            return build.truediv(transform_expr(left, replace), transform_expr(right, replace))
        case Pow(base, exponent):
            return build.power(transform_expr(base, replace), transform_expr(exponent, replace))
        case Floor(arg):
            return build.floor(transform_expr(arg, replace))
        case Ceil(arg):
            return build.ceil(transform_expr(arg, replace))
        case Trunc(arg):
            return build.trunc(transform_expr(arg, replace))
        case Where(condition, then, otherwise):
            return build.where(
                transform_condition(condition, replace),
                transform_expr(then, replace),
                transform_expr(otherwise, replace),
            )


def transform_condition(condition: Condition, replace: Replace) -> Condition:
    """``condition`` with parts of its expressions replaced, in normal form."""
    match condition:
        case Truth():
            return condition
        case Compare(relation, left, right):
            return compare(relation, transform_expr(left, replace), transform_expr(right, replace))
        case And(args):
            return all_of(transform_condition(arg, replace) for arg in args)
        case Or(args):
            return any_of(transform_condition(arg, replace) for arg in args)
        case Not(arg):
            return negate(transform_condition(arg, replace))


def _by_symbol(values: Mapping[str, Expr | int]) -> Replace:
    def replace(expr: Expr) -> Expr | None:
        return as_expr(values[expr.name]) if isinstance(expr, Sym) and expr.name in values else None

    return replace


def substitute_expr(expr: Expr, values: Mapping[str, Expr | int]) -> Expr:
    """``expr`` with symbols replaced, in normal form."""
    return transform_expr(expr, _by_symbol(values))


def substitute_condition(condition: Condition, values: Mapping[str, Expr | int]) -> Condition:
    """``condition`` with symbols replaced, in normal form."""
    return transform_condition(condition, _by_symbol(values))


@lru_cache(maxsize=1 << 14)
def normalise(condition: Condition) -> Condition:
    """``condition`` in normal form, for trees that were built by hand."""
    return substitute_condition(condition, {})


@overload
def substitute(node: Expr, values: Mapping[str, Expr | int]) -> Expr: ...
@overload
def substitute(node: Condition, values: Mapping[str, Expr | int]) -> Condition: ...
def substitute(node: Expr | Condition, values: Mapping[str, Expr | int]) -> Expr | Condition:
    """``node`` with symbols replaced, in normal form."""
    if isinstance(node, Compare | And | Or | Not | Truth):
        return substitute_condition(node, values)
    return substitute_expr(node, values)
