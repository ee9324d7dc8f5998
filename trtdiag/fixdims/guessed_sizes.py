"""What may be asked of sizes at which an op fails: two that are equal, or an end with no gap before it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

from trtdiag.dims.unequal_points import OPEN_END, Point
from trtdiag.frontend.failing_op import Failing
from trtdiag.symbolic import Range, compare, evaluate, free_symbols
from trtdiag.symbolic.expr import Condition, Expr, Relation

MOST_EQUAL = 4
"""Dims of one op that must be equal: queries have a mask, keys and values beside them."""
NEAR = 16
"""Sizes on each side of the example, of which every one is looked at, and as many others that are spread."""


def between_ends(range_: Range, example: int) -> Iterator[int]:
    """Yield sizes of a range next to the example, then others over all of it: steps of two and more show."""
    low = range_.min or 0
    high = OPEN_END * max(example, 1) if range_.max is None else range_.max
    near = range(max(low, example - NEAR), min(high, example + NEAR) + 1)
    step = max(1, (high - low) // (2 * NEAR)) | 1  # odd: even ones would all have one residue of two
    yield from dict.fromkeys((*near, *range(low, high + 1, step)))


def guesses(failing: Failing, point: Point) -> Iterator[tuple[Condition, ...]]:
    """Equations between dims of the op's tensors that differ: between two first, those of one place, from the last."""
    places: dict[Expr, int] = {}
    for dims in failing.dims:
        for place, dim in enumerate(reversed(dims)):
            places[dim] = min(place, places.get(dim, place))
    known = [dim for dim in places if free_symbols(dim) <= point.keys()]
    for count in range(2, min(len(known), MOST_EQUAL) + 1):
        groups = [
            group for group in combinations(known, count) if len({evaluate(dim, point) for dim in group}) == count
        ]
        for group in sorted(groups, key=lambda group: len({places[dim] for dim in group})):
            yield tuple(compare(Relation.EQ, one, other) for one, other in pairwise(group))
