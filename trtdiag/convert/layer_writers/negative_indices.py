"""Indices as PyTorch counts them, from either end, counted from the front."""

from __future__ import annotations

from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.known_values import greater, lesser
from trtdiag.symbolic import Expr, Num, Relation, add, compare, where


def counted_from_front(index: Expr, size: Expr, facts: ShapeConstraints) -> Expr:
    """``index``, or ``size + index`` where it is negative; an index known when the network runs decides then."""
    if facts.at_least(index, 0):
        return index
    if facts.never_at_least(index, 0):
        return add(size, index)
    return where(compare(Relation.LT, index, 0), add(size, index), index)


def clamped_start(index: Expr, size: Expr, facts: ShapeConstraints) -> Expr:
    """Where a slice begins: an index from either end, not before the first and not behind the last element."""
    return lesser(greater(counted_from_front(index, size, facts), Num(0), facts), size, facts)
