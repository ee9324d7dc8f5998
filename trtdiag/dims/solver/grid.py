"""The best product of runs over a grid of values of two or more parameters, around one of its points.

Small ranges are laid out whole, with every step: exact.  Of large ones some values are laid out, and more where these
were too few to see what breaks between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from trtdiag.dims.solver.constraint_checker import ConstraintChecker
from trtdiag.dims.solver.rectangle import Index, Mask, around, worth_of
from trtdiag.dims.solver.runs import between
from trtdiag.dims.solver.sizes import volume
from trtdiag.dims.solver.time_limit import Clock
from trtdiag.symbolic import Progression, Range, ValueSet, free_symbols, holds_array
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.progressions import progression

MOST_WHOLE = 1 << 17  # cells
MOST_SIDE = 128
MOST_CELLS = 1 << 16
MOST_ROUNDS = 40  # of laying out more values
MOST_AXIS = 256
SMALL = 1 << 40  # values above are left to the search that knows no grid

Axes = Mapping[str, Index]


def laid_out(conditions: Sequence[Condition], axes: Axes) -> Mask | None:
    """Which points of the grid satisfy all conditions; ``None`` where one of them cannot be evaluated."""
    names = list(axes)
    grids = dict(zip(names, np.meshgrid(*axes.values(), indexing="ij", sparse=True), strict=True))
    shape = tuple(len(axis) for axis in axes.values())
    mask = np.ones(shape, dtype=bool)
    try:
        for condition in conditions:
            mask &= np.asarray(holds_array(condition, {name: grids[name] for name in free_symbols(condition)}))
    except (OverflowError, ValueError):
        return None
    return mask


# --- every step, over whole ranges


@dataclass
class _Best:
    """The best product so far, for a search that goes through all."""

    clock: Clock
    worth: float = 0.0
    hard: tuple[int, int, int] = (0, 0, 0)
    parts: tuple[slice, ...] | None = None
    seen: int = 0

    @property
    def out(self) -> bool:
        """Whether the time is over; asked at every product."""
        self.seen += 1
        return self.seen % 64 == 0 and self.clock.out


def best_of_all(
    conditions: Sequence[Condition], values: Mapping[str, ValueSet], point: Mapping[str, int], clock: Clock
) -> dict[str, Progression] | None:
    """The best runs through ``point``, of all there are; ``None`` where there are too many or the time is over."""
    windows = {name: Range(here.min, here.max) for name, here in values.items()}
    counts = [window.count for window in windows.values()]
    if None in counts or prod(count or 0 for count in counts) > MOST_WHOLE or max(c or 0 for c in counts) > MOST_SIDE:
        return None
    axes = {name: np.arange(window.min or 0, (window.max or 0) + 1) for name, window in windows.items()}
    mask = laid_out(conditions, axes)
    if mask is None:
        return None
    for place, (name, here) in enumerate(values.items()):
        inside = np.isin(axes[name], np.fromiter(here.members(MOST_SIDE), dtype=np.int64))
        mask &= inside.reshape([-1 if index == place else 1 for index in range(mask.ndim)])
    places = tuple(point[name] - (window.min or 0) for name, window in windows.items())
    if not mask[places]:
        return None
    best = _Best(clock)
    # A wide axis first: its longest runs leave the fewest cells for the others, which ends most of the search.
    order = sorted(range(mask.ndim), key=lambda axis: -_free(mask, axis, places))
    _descend(mask.transpose(order), tuple(places[axis] for axis in order), 1.0, (), best)
    if best.parts is None or clock.out:
        return None
    names = list(axes)
    return {
        names[axis]: _run(part, windows[names[axis]], values[names[axis]].range)
        for axis, part in sorted(zip(order, best.parts, strict=True))
    }


def _run(part: slice, window: Range, asked: Range) -> Progression:
    low = window.min or 0
    return progression(part.step, low + part.start, Range(low + part.start, low + part.stop - 1), asked)


def _descend(mask: Mask, places: tuple[int, ...], factor: float, parts: tuple[slice, ...], best: _Best) -> None:
    """Try every run of the first axis, and below each the others; widest first."""
    if not places:
        hard = _hardness(parts)
        if (-factor, hard) < (-best.worth, best.hard) or best.parts is None:
            best.worth, best.hard, best.parts = factor, hard, parts
        return
    line = _along(mask, 0, places)
    rest = prod(worth_of(_free(mask, axis, places)) for axis in range(1, mask.ndim))
    lines = sorted(_lines(line, places[0]), key=lambda part: (-_length(part), part.step))
    for part in lines:
        here = factor * worth_of(_length(part))
        if here * rest < best.worth or best.out:
            return
        below: Mask = np.logical_and.reduce(mask[part], axis=0)
        _descend(below, places[1:], here, (*parts, part), best)


def _length(part: slice) -> int:
    return len(range(part.start, part.stop, part.step))


def _hardness(parts: Sequence[slice]) -> tuple[int, int, int]:
    singles = sum(_length(part) == 1 for part in parts)
    multiples = [part.step for part in parts if part.step > 1]
    narrow = min(_length(part) for part in parts)
    return singles, len(multiples), sum(multiples) - narrow


def _free(mask: Mask, axis: int, places: Sequence[int]) -> int:
    """How many cells are true along an axis through the point: no run has more there."""
    return int(_along(mask, axis, places).sum())


def _along(mask: Mask, axis: int, places: Sequence[int]) -> Mask:
    line: Mask = mask[tuple(slice(None) if index == axis else place for index, place in enumerate(places))]
    return line


def _lines(line: Mask, place: int) -> Iterator[slice]:
    """Every run of true cells through ``place``."""
    count = len(line)
    yield slice(place, place + 1, 1)
    for step in range(1, count):
        lows, highs = [place], [place]
        while lows[-1] - step >= 0 and line[lows[-1] - step]:
            lows.append(lows[-1] - step)
        while highs[-1] + step < count and line[highs[-1] + step]:
            highs.append(highs[-1] + step)
        for low in lows:
            for high in highs:
                if low != high:
                    yield slice(low, high + 1, step)


# --- given steps, over some values of large ranges


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


def _samples(ends: tuple[int | None, int | None], centre: int, side: int) -> Index:
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


def _between_samples(axis: Index, found: tuple[int, int]) -> Index:
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
        values: Sequence[Index],
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


def _bound(mask: Mask, places: Sequence[int], values: Sequence[Index]) -> float:
    """No product around the point is worth more: as far as it goes along each axis alone."""
    found = 1.0
    for axis, (place, here) in enumerate(zip(places, values, strict=True)):
        line = _along(mask, axis, places)
        ahead, back = line[place:], line[place::-1]
        high = place + (len(ahead) if ahead.all() else int(np.argmin(ahead))) - 1
        low = place + 1 - (len(back) if back.all() else int(np.argmin(back)))
        found *= worth_of(here[high] - here[low] + 1)
    return found
