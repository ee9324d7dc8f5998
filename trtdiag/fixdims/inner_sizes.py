"""Sizes inside of a model that an example makes 1: a map of one pixel, one window."""

from __future__ import annotations

from trtdiag.symbolic import children, is_condition
from trtdiag.symbolic.expr import Compare, Condition, Expr, FloorDiv, Mod, Num, Relation

LARGEST_SPECIAL = 2
"""An inner size of 1 is compared with 1, or with 2 from below; torch and models treat no other sizes apart."""


def fixes_inner_size(condition: Condition) -> bool:
    """Whether a condition holds a rounded quotient of sizes at 0 or 1, or below: ``(h - 1)//32 == 0``.

    Larger numbers are mostly limits of the model (a table of positions), and hold for any example.
    """
    if not isinstance(condition, Compare) or condition.relation not in (Relation.EQ, Relation.LE, Relation.LT):
        return False
    sides = (condition.left, condition.right)
    small = any(isinstance(side, Num) and -LARGEST_SPECIAL <= side.value <= LARGEST_SPECIAL for side in sides)
    return small and any(_rounded(side) for side in sides)


def _rounded(part: Expr) -> bool:
    """Whether there is a quotient, and no remainder: of a remainder no example is better than another."""
    parts = [part]
    found = False
    while parts:
        here = parts.pop()
        if isinstance(here, Mod):
            return False
        found = found or isinstance(here, FloorDiv)
        parts += [child for child in children(here) if not is_condition(child)]  # type: ignore[misc]
    return found
