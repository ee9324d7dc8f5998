"""Smart constructors of conditions, negation and substitution.

A condition *holds* at values where every comparison that it needs is defined and true.  A comparison that divides by
zero is neither true nor false (the model would raise there), and neither is its negation.  There is no
node for a negation: it is pushed down to the comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, gcd, lcm
from typing import Any, TypeVar

from trtdiag.symbolic import build, build_functions
from trtdiag.symbolic.build import Number, as_expr, linear_terms, mul, neg, sub
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
    Relation,
    Sym,
    TrueDiv,
    Trunc,
    Truth,
    Where,
)
from trtdiag.symbolic.float_factors import as_float, is_float, is_rounded, simplest
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.tree import children, is_integer, is_total, order_key

Tree = TypeVar("Tree", Expr, Condition)
Replace = Callable[[Expr], Expr | None]
"""Gives what stands for a part of an expression, or ``None`` where it stays."""

_MOST_COMPARED = 1 << 40
"""Sizes up to this: there a float is off by less than one size."""

TRUE = Truth(True)
FALSE = Truth(False)

# In the order of ``Relation``: == != < <= > >=
FLIPPED = dict(zip(Relation, map(Relation, ("==", "!=", ">", ">=", "<", "<=")), strict=True))
_NEGATED = dict(zip(Relation, map(Relation, ("!=", "==", ">=", ">", "<=", "<")), strict=True))


def compare(relation: Relation, left: Expr | Number, right: Expr | Number) -> Condition:
    """``left <relation> right`` with terms collected, common factors removed and the constant on the right."""
    difference = sub(as_expr(left), as_expr(right))
    if isinstance(difference, Num):
        return Truth(relation.holds(difference.value, 0))
    terms, constant = linear_terms(difference)
    rounded = _compare_floats(relation, terms, constant)
    if rounded is not None:
        return rounded
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


def _compare_floats(relation: Relation, terms: Sequence[tuple[Number, Expr]], constant: Number) -> Condition | None:
    """The comparison of a float with a whole number, by whole ones; ``None`` where floats compare as fractions do."""
    floats = [mul(part, rest) for part, rest in terms if not (is_integer(rest) and isinstance(part, int))]
    if len(floats) > 1:
        return None
    if not floats or not is_rounded(floats[0]):
        nearest = simplest(constant)
        return None if nearest == constant else compare(relation, build.add(*(mul(*each) for each in terms)), -nearest)
    if not is_integer(as_expr(constant)):
        return _compare_product(relation, terms, -Fraction(constant))
    whole = neg(build.add(constant, *(mul(part, rest) for part, rest in terms if is_integer(mul(part, rest)))))
    down, up = build.floor(floats[0]), build_functions.ceil(floats[0])
    match relation:
        case Relation.EQ:
            return all_of((compare(relation, down, whole), compare(relation, up, whole)))
        case Relation.NE:
            return any_of((compare(relation, down, whole), compare(relation, up, whole)))
        case Relation.GE | Relation.LT:
            return compare(relation, down, whole)
        case _:
            return compare(relation, up, whole)


def _compare_product(relation: Relation, terms: Sequence[tuple[Number, Expr]], limit: Fraction) -> Condition | None:
    """A size times a factor, compared with a number that is not whole: 0.1*n >= 2.4000000000000004 is n >= 24.

    ``None`` where it is something else: a sum was rounded in ways that are not told any more.
    """
    (part, rest), *others = terms
    if others or not is_integer(rest) or not (is_float(Fraction(part)) and is_float(limit)):
        return None
    factor = Fraction(part)
    if factor < 0:
        factor, limit, relation = -factor, -limit, FLIPPED[relation]
    if abs(limit) > _MOST_COMPARED * factor:
        return None
    # Products of floats never fall where sizes grow; those of the sizes beside the quotient are on both sides of it.
    near = range(floor(limit / factor) - 1, ceil(limit / factor) + 2)
    least = next((size for size in near if as_float(factor * size) >= limit), near[-1])
    beyond = next((size for size in near if as_float(factor * size) > limit), near[-1])
    if relation in (Relation.EQ, Relation.NE):
        if beyond == least + 1:
            return compare(relation, rest, least)
        if beyond == least and is_total(rest):
            return Truth(relation is Relation.NE)
        within_ = all_of((compare(Relation.GE, rest, least), compare(Relation.LT, rest, beyond)))
        return within_ if relation is Relation.EQ else negate(within_)
    first = least if relation in (Relation.GE, Relation.LT) else beyond
    return compare(Relation.GE if relation in (Relation.GE, Relation.GT) else Relation.LT, rest, first)


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


def within(expr: Expr, range_: Range) -> list[Condition]:
    """The conditions that ``expr`` lies in ``range_``."""
    ends = ((Relation.GE, range_.min), (Relation.LE, range_.max))
    return [compare(relation, expr, end) for relation, end in ends if end is not None]


def negate(condition: Condition) -> Condition:
    """The condition that ``condition`` is defined and does not hold."""
    match condition:
        case Truth(value):
            return Truth(not value)
        case Compare(relation, left, right):
            return compare(_NEGATED[relation], left, right)
        case And(args):
            return any_of(negate(arg) for arg in args)
        case Or(args):
            return all_of(negate(arg) for arg in args)


def conjuncts(condition: Condition) -> tuple[Condition, ...]:
    """The conditions that must all hold; an ``And`` taken apart."""
    return condition.args if isinstance(condition, And) else (condition,)


_BUILT: dict[type, Callable[..., Expr | Condition]] = {
    Add: build.add,
    Mul: build.mul,
    Min: build_functions.minimum,
    Max: build_functions.maximum,
    FloorDiv: build.floordiv,
    Mod: build.mod,
    TrueDiv: build.truediv,
    Pow: build_functions.power,
    Floor: build.floor,
    Ceil: build_functions.ceil,
    Trunc: build_functions.trunc,
    Where: build_functions.where,
    And: lambda *parts: all_of(parts),
    Or: lambda *parts: any_of(parts),
}


def transform(node: Tree, replace: Replace) -> Tree:
    """``node`` with every part for which ``replace`` gives another one replaced, outermost first, in normal form."""
    known: dict[Any, Any] = {}  # by each part what is in its place; sizes of windows repeat theirs hundreds of times

    def made(part: Any) -> Any:
        if part in known:
            return known[part]
        other: Any = None if isinstance(part, Compare | And | Or | Truth) else replace(part)
        if other is None and isinstance(part, Num | Sym | Truth):
            other = part
        if other is None:  # a tree that was built by hand comes into normal form here
            parts = [made(each) for each in children(part)]
            other = compare(part.relation, *parts) if isinstance(part, Compare) else _BUILT[type(part)](*parts)
        known[part] = other
        return other

    result: Tree = made(node)
    return result


def substitute(node: Tree, values: Mapping[str, Expr | int]) -> Tree:
    """``node`` with symbols replaced, in normal form."""
    return transform(
        node, lambda part: as_expr(values[part.name]) if isinstance(part, Sym) and part.name in values else None
    )


@lru_cache(maxsize=1 << 14)
def normalise(condition: Condition) -> Condition:
    """``condition`` in normal form, for trees that were built by hand."""
    return substitute(condition, {})
