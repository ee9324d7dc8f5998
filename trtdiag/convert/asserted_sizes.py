"""What a program asserts of sizes that the data decide, beyond what follows from how they come about."""

from __future__ import annotations

from trtdiag.network import ShapeConstraints
from trtdiag.symbolic import Expr, Range, Relation, Sym, compare, free_symbols, implied

_LIMIT_S = 1.0
"""Own choice: for z3; what it cannot show in that time is checked in each run."""


def is_asserted(facts: ShapeConstraints, count: str, most: Expr) -> bool:
    """Whether a run must check a size: PyTorch asserts more of it than that it is between 0 and ``most``.

    An op that takes no empty tensor, such as ``amax``, asserts that at least one element was found.

    Args:
        facts: Ranges and conditions of the program.
        count: The size.
        most: What it can be by itself.
    """
    ranges = {**facts.ranges, count: Range(0, None)}
    known = (compare(Relation.LE, Sym(count), facts.expanded(most)),)
    allowed = facts.ranges.get(count, Range(0, None))
    claims = [condition for condition in facts.given if count in free_symbols(condition)]
    claims += [compare(Relation.GE, Sym(count), allowed.min)] if allowed.min else []
    claims += [compare(Relation.LE, Sym(count), allowed.max)] if allowed.max is not None else []
    for claim in dict.fromkeys(map(facts.expanded, claims)):
        found = implied(claim, known, ranges, limit_s=_LIMIT_S)
        if found.verdict != "holds" or not found.proof.proven:
            return True
    return False
