"""Arithmetic on elements that are known as expressions: what a layer does to sizes, in the simplest form.

Bools are 0 and 1.  What the sizes' ranges and conditions decide is decided here, so that ``max(h, 1)`` is ``h``.
"""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.network.facts import ShapeConstraints
from trtdiag.symbolic import (
    Condition,
    Expr,
    Num,
    Relation,
    compare,
    floordiv,
    maximum,
    minimum,
    mod,
    mul,
    negate,
    sub,
    where as choice,
)
from trtdiag.symbolic.build import linear_terms
from trtdiag.symbolic.expr import FloorDiv, Mul, Where

_ZERO, _ONE = Num(0), Num(1)


def truth_of(value: Expr) -> Condition:
    """The condition that a number is not 0; of a bool the condition that it stands for."""
    if isinstance(value, Where) and (value.then, value.otherwise) == (_ONE, _ZERO):
        return value.condition
    if isinstance(value, Where) and (value.then, value.otherwise) == (_ZERO, _ONE):
        return negate(value.condition)
    return compare(Relation.NE, value, 0)


def as_bool(condition: Condition) -> Expr:
    """1 where the condition holds, else 0."""
    return choice(condition, 1, 0)


def compared(relation: Relation, left: Expr, right: Expr, facts: ShapeConstraints) -> Expr:
    """``left <relation> right`` for EQ, LT and GT as 0 or 1."""
    if relation is Relation.LT:
        left, right = right, left
    distance = sub(left, right)
    if relation is Relation.EQ:
        if facts.equal(left, right):
            return _ONE
        apart = facts.at_least(distance, 1) or facts.never_at_least(distance, 0)
        return _ZERO if apart else as_bool(compare(relation, left, right))
    if facts.at_least(distance, 1):
        return _ONE
    return _ZERO if facts.never_at_least(distance, 1) else as_bool(compare(Relation.GT, left, right))


def _most(left: Expr, right: Expr, facts: ShapeConstraints, sign: int) -> Expr | None:
    """The greater of two, the lesser for a sign of -1, where it is known which it is."""
    pairs = ((left, right), (right, left))
    return next((one for one, other in pairs if facts.at_least(mul(sign, sub(one, other)), 0)), None)


def greater(left: Expr, right: Expr, facts: ShapeConstraints) -> Expr:
    """The greater of two."""
    return _most(left, right, facts, 1) or maximum(left, right)


def lesser(left: Expr, right: Expr, facts: ShapeConstraints) -> Expr:
    """The lesser of two."""
    return _most(left, right, facts, -1) or minimum(left, right)


def difference(left: Expr, right: Expr) -> Expr:
    """``left - right``, and ``a % b`` where it is ``a - a//b*b``: a network has no other remainder."""
    for divisor in _divisors(right):
        if mul(floordiv(left, divisor), divisor) == right:
            return mod(left, divisor)
    return sub(left, right)


def _divisors(whole: Expr) -> Iterator[Expr]:
    """What may have been divided by, and multiplied with again, to give ``whole``: the factors beside a quotient."""
    for coefficient, term in linear_terms(whole)[0]:
        factors = term.args if isinstance(term, Mul) else (term,)
        for place, factor in enumerate(factors):
            if isinstance(factor, FloorDiv):
                yield mul(coefficient, *factors[:place], *factors[place + 1 :])
