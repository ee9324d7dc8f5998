"""Exhaustive search of a small part of a box that still answers for the whole box.

A counterexample with the least maximum among all tuples up to some maximum is the smallest of the whole box, and the
nearest tuple within a window is the nearest of all as long as its distance does not exceed the window's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trtdiag.symbolic.bounds import Box
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.grid import Grid, tuple_count
from trtdiag.symbolic.ranges import Range

FEW_TUPLES = 1 << 14
WINDOW_TUPLES = 1 << 18


def smallest_broken(
    condition: Condition, given: Sequence[Condition], names: Sequence[str], box: Box
) -> tuple[dict[str, int], int] | None:
    """The smallest tuple that breaks ``condition`` and satisfies ``given``, and how many were tried.

    ``None`` where the first tuples (those with the least maxima) have none, or the box has no least corner.

    Raises:
        OverflowError: A value is too large to be computed.
    """
    part = _lowest(names, box)
    if part is None:
        return None
    grid = Grid.of(names, part)
    mask = ~grid.holds([condition])
    if given:
        mask = mask & grid.holds(given)
    found = grid.smallest(mask)
    return None if found is None else (found, int(np.prod(grid.shape)))


def nearest_fitting(wanted: Sequence[Condition], box: Box, point: Mapping[str, int]) -> dict[str, int] | None:
    """The tuple with the least sum of distances to ``point`` at which all ``wanted`` hold, if it is not too far."""
    names = tuple(point)
    radius = 2
    while True:
        window = {name: box[name].intersect(Range(point[name] - radius, point[name] + radius)) for name in names}
        count = tuple_count(names, window)
        if count is None or count > WINDOW_TUPLES:
            return None
        grid = Grid.of(names, window)
        found = grid.nearest(grid.holds(wanted), point)
        whole = all(window[name] == box[name] for name in names)
        if found is not None and (whole or sum(abs(found[name] - point[name]) for name in names) <= radius):
            return found
        if whole:
            return None
        radius *= 3


def _lowest(names: Sequence[str], box: Box) -> dict[str, Range] | None:
    """All tuples of ``box`` up to some maximum, about ``FEW_TUPLES`` of them."""
    lows = [low for low in (box[name].min for name in names) if low is not None]
    if len(lows) < len(names):
        return None
    least = max(lows)
    if (tuple_count(names, _up_to(names, box, least)) or 0) > FEW_TUPLES:
        return None
    reach = 1
    while reach <= FEW_TUPLES and (tuple_count(names, _up_to(names, box, least + 2 * reach)) or 0) <= FEW_TUPLES:
        reach *= 2
    return _up_to(names, box, least + reach)


def _up_to(names: Sequence[str], box: Box, most: int) -> dict[str, Range]:
    return {name: box[name].intersect(Range(None, most)) for name in names}
