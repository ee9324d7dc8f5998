"""The best product of runs over a grid of all values of two or more parameters, around one of its points.

Small ranges are laid out whole, with every step: exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from trtdiag.dims.solver.largest_rectangle import worth_of
from trtdiag.dims.solver.time_limit import Clock
from trtdiag.symbolic import Progression, Range, ValueSet, free_symbols, holds_array
from trtdiag.symbolic.checked_arrays import IntArray
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.patterns import Mask
from trtdiag.symbolic.progressions import progression

MOST_WHOLE = 1 << 17  # cells
MOST_SIDE = 128

Axes = Mapping[str, IntArray]


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
    line = along(mask, 0, places)
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
    return int(along(mask, axis, places).sum())


def along(mask: Mask, axis: int, places: Sequence[int]) -> Mask:
    """The cells along an axis through the point."""
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
