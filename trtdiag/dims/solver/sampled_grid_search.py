"""The best product of runs over a grid of some values of large ranges, around one of its points.

Steps are given.  More values are laid out where these were too few to see what breaks between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trtdiag.dims.solver.constraint_checker import ConstraintChecker
from trtdiag.dims.solver.exhaustive_grid_search import Axes, along, laid_out
from trtdiag.dims.solver.largest_rectangle import around, worth_of
from trtdiag.dims.solver.runs import between
from trtdiag.dims.solver.time_limit import Clock
from trtdiag.dims.solver.volume import volume
from trtdiag.symbolic import Progression
from trtdiag.symbolic.checked_arrays import IntArray
from trtdiag.symbolic.patterns import Mask

MOST_CELLS = 1 << 16
MOST_ROUNDS = 40  # of laying out more values
MOST_AXIS = 256
SMALL = 1 << 40  # values above are left to the search that knows no grid


def best_of_some(
    oracle: ConstraintChecker, widest: Mapping[str, Progression], point: Mapping[str, int]
) -> dict[str, Progression] | None:
    """The best stretches of ``widest`` around ``point`` found on a grid that gets finer; each is shown to hold.

    ``None`` where an end is open or nothing was shown before the time was over.
    """
    names = list(widest)
    ends = {name: (run.range.min, run.range.max) for name, run in widest.items()}
    if len(names) < 2 or any(low is None or high is None or high - low > SMALL for low, high in ends.values()):
        return None
    centres = {name: (point[name] - run.offset) // run.step for name, run in widest.items()}
    axes = {name: _samples(ends[name], centres[name], _side(len(names))) for name in names}
    best: dict[str, Progression] | None = None
    for _ in range(MOST_ROUNDS):
        if oracle.clock.out or max(len(axis) for axis in axes.values()) > MOST_AXIS:
            break
        found = _stretches(oracle, widest, axes, centres)
        if found is None:
            break
        runs = {name: between(widest[name], *found[name]) for name in names}
        if best is not None and volume(runs) >= volume(best):
            break
        before, verdict = len(oracle.broken), oracle.holds(runs)
        if verdict:
            best = runs
            axes = {name: _between_samples(axes[name], found[name]) for name in names}
        elif verdict is False:
            seen = oracle.broken[before:] or [p for p in oracle.broken if all(p[n] in runs[n] for n in p)][:1]
            more = {
                name: [(p[name] - widest[name].offset) // widest[name].step for p in seen if name in p]
                for name in names
            }
            finer = {name: np.unique([*axes[name], *more[name]]) for name in names}
            if all(len(finer[name]) == len(axes[name]) for name in names):
                break
            axes = finer
        else:
            break
    return best


def _side(dims: int) -> int:
    return max(6, int(MOST_CELLS ** (1 / dims)))


def _samples(ends: tuple[int | None, int | None], centre: int, side: int) -> IntArray:
    """Values from all over a range, densest near the centre and near the ends."""
    low, high = ends[0] or 0, ends[1] or 0
    if high - low < side:
        return np.arange(low, high + 1)
    found = {low, high, centre}
    each = max(2, side // 6)
    for end in (low, high):
        far = abs(end - centre)
        sign = 1 if end > centre else -1
        if not far:
            continue
        ratio = far ** (1 / each)
        for index in range(each + 1):
            found.add(centre + sign * min(far, int(ratio**index)))
            found.add(centre + sign * (far * index // each))
    for name in (low + 1, high - 1):
        found.add(name)
    return np.array(sorted(value for value in found if low <= value <= high))


def _between_samples(axis: IntArray, found: tuple[int, int]) -> IntArray:
    """More values right beyond the ends that were found: the next ones, and some up to the next that was laid out."""
    more: set[int] = set()
    for value, sign in ((found[0], -1), (found[1], 1)):
        place = int(np.searchsorted(axis, value)) + sign
        if not 0 <= place < len(axis):
            continue
        gap = abs(int(axis[place]) - value)
        more.update(value + sign * (gap * index // 4) for index in range(1, 4))
        if gap > 1:
            more.add(value + sign)
    return np.unique([*axis, *more])


def _stretches(
    oracle: ConstraintChecker, widest: Mapping[str, Progression], axes: Axes, centres: Mapping[str, int]
) -> dict[str, tuple[int, int]] | None:
    sizes = {name: widest[name].step * axis + widest[name].offset for name, axis in axes.items()}
    mask = laid_out(oracle.conditions, sizes)
    if mask is None:
        return None
    places = tuple(int(np.searchsorted(axes[name], centres[name])) for name in axes)
    if not mask[places]:
        return None
    search = _Stretches(oracle.clock)
    search.descend(mask, places, list(axes.values()), 1.0, ())
    if search.found is None:
        return None
    return {
        name: (int(axis[low]), int(axis[high]))
        for (name, axis), (low, high) in zip(axes.items(), search.found, strict=True)
    }


@dataclass
class _Stretches:
    """The best product of neighbouring cells, each axis with its values, found by going through the ends."""

    clock: Clock
    worth: float = 0.0
    found: tuple[tuple[int, int], ...] | None = None

    def descend(
        self,
        mask: Mask,
        places: tuple[int, ...],
        values: Sequence[IntArray],
        factor: float,
        ends: tuple[tuple[int, int], ...],
    ) -> None:
        """Every pair of ends of the first axis, and below each the others, the last two at once."""
        if mask.ndim == 2:
            found = around(mask, places[0], places[1], values[0], values[1])
            if found is not None and factor * found.worth > self.worth:
                self.worth = factor * found.worth
                self.found = (*ends, (found.top, found.bottom), (found.left, found.right))
            return
        place, axis = places[0], values[0]
        below = np.logical_and.accumulate(mask[place::-1], axis=0)
        above = np.logical_and.accumulate(mask[place:], axis=0)
        inner = places[1:]
        lows = [index for index in range(len(below)) if below[index][inner]]
        highs = [index for index in range(len(above)) if above[index][inner]]
        pairs = sorted(
            ((worth_of(axis[place + up] - axis[place - down] + 1), down, up) for down in lows for up in highs),
            reverse=True,
        )
        most = factor * _bound(mask[place], inner, values[1:])
        for count, down, up in pairs:
            if count * most <= self.worth or (self.found is not None and self.clock.out):
                return
            rest = below[down] & above[up]
            if factor * count * _bound(rest, inner, values[1:]) > self.worth:
                self.descend(rest, inner, values[1:], factor * count, (*ends, (place - down, place + up)))


def _bound(mask: Mask, places: Sequence[int], values: Sequence[IntArray]) -> float:
    """No product around the point is worth more: as far as it goes along each axis alone."""
    found = 1.0
    for axis, (place, here) in enumerate(zip(places, values, strict=True)):
        line = along(mask, axis, places)
        ahead, back = line[place:], line[place::-1]
        high = place + (len(ahead) if ahead.all() else int(np.argmin(ahead))) - 1
        low = place + 1 - (len(back) if back.all() else int(np.argmin(back)))
        found *= worth_of(here[high] - here[low] + 1)
    return found
