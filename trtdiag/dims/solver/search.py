"""The best choice for symbols that conditions connect: every way to use up their equations is tried."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from trtdiag.dims.solver.eliminate import layouts
from trtdiag.dims.solver.fitting import Fitted, fitted, groups
from trtdiag.dims.solver.layout import Layout, Origins, followed
from trtdiag.dims.solver.solving import Sets
from trtdiag.dims.solver.variants import on_lines, straightened

MOST_STRAIGHTENED = 32
MOST_LINED = 3  # pairs of parameters


def searched(start: Layout, determine: bool, sets: Sets) -> Fitted | None:
    """The best fit of all layouts that follow from ``start``; ``None`` where none is known.

    Args:
        start: Every symbol its own parameter.
        determine: Whether sizes may be any expression.
        sets: Solves what is asked of one parameter; its clock ends the search.
    """
    best: Fitted | None = None
    for solved in layouts(start):
        for layout in [solved] if determine else _affine(solved):
            found = fitted(layout, sets, best)
            if found is not None and (best is None or found.rank < best.rank):
                best = found
            if best is not None and (sets.clock.out or (best.whole and best.layout.lossless)):
                return best
    if best is not None and best.violated:
        best = _on_lines(best, determine, sets)
    return best


def _affine(layout: Layout) -> Iterator[Layout]:
    return followed(layout, straightened, MOST_STRAIGHTENED)


def _on_lines(best: Fitted, determine: bool, sets: Sets) -> Fitted:
    """Lines through the example, where joint claims left only a narrow product."""
    layout = best.layout
    for names, claims in groups(layout.ranges, best.violated)[:MOST_LINED]:
        because: Origins = frozenset().union(*(claim.origins for claim in claims))
        for first, second in combinations(names, 2) if len(names) <= MOST_LINED else ():
            for line in on_lines(layout, (first, second), because):
                if sets.clock.out:
                    return best
                for made in [] if line is None else [line] if determine else _affine(line):
                    found = fitted(made, sets, best)
                    if found is not None and found.rank < best.rank:
                        best = found
                    if sets.clock.out:
                        return best
    return best
