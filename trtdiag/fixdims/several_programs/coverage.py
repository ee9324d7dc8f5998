"""How many of the asked sizes several declarations take together: exact counts, and samples to look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import numpy as np
import numpy.typing as npt

from trtdiag.dims.solver.constraint_losses import Points
from trtdiag.fixdims.several_programs.admitted_sizes import Conditions
from trtdiag.fixdims.several_programs.coordinates import Coordinate
from trtdiag.symbolic import free_symbols, holds_array
from trtdiag.symbolic.grid import Grid, tuple_count
from trtdiag.symbolic.patterns import Mask
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.shared_symbols import tied_groups

MOST_GRID = 1 << 22
"""Combinations of coordinates that conditions tie together; more of them are not counted."""
OPEN_VALUES = 1 << 12
"""An open range is looked at up to so many values."""


def free(coordinates: Iterable[Coordinate]) -> list[Coordinate]:
    """The coordinates that are counted."""
    return [coordinate for coordinate in coordinates if not coordinate.follows]


def window(coordinate: Coordinate) -> Range:
    """The asked values, cut to a bounded stretch where they have no end."""
    low = 1 if coordinate.range.min is None else coordinate.range.min
    return Range(low, low + OPEN_VALUES - 1 if coordinate.range.max is None else coordinate.range.max)


def members(conditions: Conditions, points: Points) -> Mask:
    """Which points satisfy all conditions on the coordinates that the points have."""
    count = max((len(values) for values in points.values()), default=1)
    inside: Mask = np.ones(count, dtype=bool)
    for condition in conditions:
        names = free_symbols(condition)
        if names <= points.keys():
            inside &= np.broadcast_to(holds_array(condition, {name: points[name] for name in names}), inside.shape)
    return inside


class Counts:
    """How many of the asked combinations fall into each set of programs.

    Attributes:
        by_programs: Bit ``i`` set: taken by program ``i``; ``None`` where it was not counted.
        asked: How many were asked for; ``None`` where a range has no end.
    """

    def __init__(self, programs: Sequence[Conditions], coordinates: Sequence[Coordinate]) -> None:
        counted = free(coordinates)
        self.asked = tuple_count([each.name for each in counted], {each.name: window(each) for each in counted})
        self.open = any(not each.range.bounded for each in counted)
        self.by_programs: dict[int, int] | None = {(1 << len(programs)) - 1: 1}
        for group in _groups(programs, counted):
            signatures = _signatures(programs, group)
            if signatures is None:
                self.by_programs = None
                return
            joined: dict[int, int] = {}
            for first, count in self.by_programs.items():
                for second, times in signatures.items():
                    joined[first & second] = joined.get(first & second, 0) + count * times
            self.by_programs = joined

    def of(self, mask: int) -> int | None:
        """How many are taken by any of the programs in ``mask``."""
        if self.by_programs is None:
            return None
        return sum(count for programs, count in self.by_programs.items() if programs & mask)

    def kept(self, mask: int) -> tuple[int, int] | None:
        """The same and of how many; ``None`` where that is not known, or a range has no end."""
        count = self.of(mask)
        return None if count is None or self.asked is None or self.open else (count, self.asked)


def _groups(programs: Sequence[Conditions], coordinates: Sequence[Coordinate]) -> list[list[Coordinate]]:
    """Coordinates that some condition ties together, each such group on its own."""
    names = {coordinate.name for coordinate in coordinates}
    ties = [symbols for program in programs for each in program if (symbols := free_symbols(each)) and symbols <= names]
    items: list[Coordinate | frozenset[str]] = [*coordinates, *ties]
    groups = tied_groups(items, lambda item: {item.name} if isinstance(item, Coordinate) else item)
    return [[each for each in group if isinstance(each, Coordinate)] for group in groups]


def _signatures(programs: Sequence[Conditions], group: Sequence[Coordinate]) -> dict[int, int] | None:
    """Set of programs -> how many combinations of one group it takes."""
    points = grid(group, MOST_GRID)
    if points is None:
        return None
    count = max((len(values) for values in points.values()), default=1)
    signature = np.zeros(count, dtype=np.int64)
    for index, program in enumerate(programs):
        signature |= members(program, points).astype(np.int64) << index
    values, counts = np.unique(signature, return_counts=True)
    return {int(value): int(times) for value, times in zip(values, counts, strict=True)}


def grid(coordinates: Sequence[Coordinate], most: int) -> dict[str, npt.NDArray[np.int64]] | None:
    """Every combination of the asked values; ``None`` where there are more than ``most``."""
    ranges = {coordinate.name: window(coordinate) for coordinate in coordinates}
    total = tuple_count(list(ranges), ranges)
    return None if total is None or total > most else Grid.of(list(ranges), ranges).columns()


def sample(coordinates: Sequence[Coordinate], count: int) -> dict[str, npt.NDArray[np.int64]]:
    """All combinations where they are few, else so many at random, the same ones each time."""
    counted = free(coordinates)
    every = grid(counted, count)
    if every is not None:
        return every
    random = Random(0)
    ranges = {each.name: window(each) for each in counted}
    return {
        name: np.array([random.randint(range_.min or 0, range_.max or 0) for _ in range(count)], dtype=np.int64)
        for name, range_ in ranges.items()
    }
