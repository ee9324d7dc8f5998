"""The best runs of two parameters: exact wherever the pairs can be laid out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trtdiag.dims.solver.combinations import combined
from trtdiag.dims.solver.largest_rectangle import Rectangle, anywhere, around
from trtdiag.dims.solver.time_limit import Clock
from trtdiag.dims.solver.volume import volume, words
from trtdiag.symbolic import Progression, Range, ValueSet, all_of, holds_array
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.patterns import Mask
from trtdiag.symbolic.progressions import progression

MOST_CELLS = 1 << 24
CHUNK_CELLS = 1 << 19
FEW_CELLS = 1 << 12
SMALL_STEPS = 64


@dataclass(frozen=True)
class Plane:
    """Which pairs of two parameters are allowed, over bounded windows."""

    names: tuple[str, str]
    windows: Mapping[str, Range]
    mask: Mask

    @classmethod
    def of(
        cls,
        conditions: Sequence[Condition],
        windows: Mapping[str, Range],
        values: Mapping[str, ValueSet],
        clock: Clock,
    ) -> Plane | None:
        """The plane of two windows; ``None`` where they are too large or the time is over."""
        first, second = sorted(windows)
        counts = windows[first].count, windows[second].count
        if counts[0] is None or counts[1] is None or counts[0] * counts[1] > MOST_CELLS:
            return None
        starts = [windows[name].min or 0 for name in (first, second)]
        members = (values[name].within(windows[name]).members(MOST_CELLS) for name in (first, second))
        rows, columns = (np.fromiter(found, dtype=np.int64) for found in members)
        mask = np.zeros((counts[0], counts[1]), dtype=bool)
        together = all_of(conditions)
        size = max(1, CHUNK_CELLS // max(1, len(columns)))
        for begin in range(0, len(rows), size):
            if clock.out:
                return None
            part = rows[begin : begin + size]
            try:
                held = holds_array(together, {first: part[:, None], second: columns[None, :]})
            except (OverflowError, ValueError):
                return None
            held = np.broadcast_to(np.asarray(held), (len(part), len(columns)))
            mask[np.ix_(part - starts[0], columns - starts[1])] = held
        return cls((first, second), windows, mask)

    def best_around(self, runs: Mapping[str, Progression], point: Mapping[str, int]) -> dict[str, Progression] | None:
        """The largest part of ``runs`` that contains ``point`` and is allowed throughout."""
        slices = tuple(self._slice(runs[name], name) for name in self.names)
        places = [
            (point[name] - (self.windows[name].min or 0) - part.start) // part.step
            for name, part in zip(self.names, slices, strict=True)
        ]
        found = around(self.mask[slices], places[0], places[1])
        return None if found is None else self._runs(found, slices, runs)

    def best_anywhere(self, runs: Mapping[str, Progression], clock: Clock) -> dict[str, Progression] | None:
        """The largest part of ``runs`` that is allowed throughout."""
        slices = tuple(self._slice(runs[name], name) for name in self.names)
        found = anywhere(self.mask[slices], clock)
        return None if found is None else self._runs(found, slices, runs)

    def _slice(self, run: Progression, name: str) -> slice:
        start = self.windows[name].min or 0
        extent = run.extent.intersect(self.windows[name])
        assert extent.min is not None
        assert extent.max is not None
        first = extent.min + (run.offset - extent.min) % run.step
        return slice(first - start, extent.max - start + 1, run.step)

    def _runs(
        self, found: Rectangle, slices: tuple[slice, ...], runs: Mapping[str, Progression]
    ) -> dict[str, Progression]:
        ends = (found.top, found.bottom), (found.left, found.right)
        result = {}
        for name, part, (low, high) in zip(self.names, slices, ends, strict=True):
            start = (self.windows[name].min or 0) + part.start
            extent = Range(start + low * part.step, start + high * part.step)
            result[name] = progression(part.step, start % part.step, extent, runs[name].asked)
        return result


def best_pair_anywhere(
    conditions: Sequence[Condition], values: Mapping[str, ValueSet], steps: Sequence[int], clock: Clock
) -> dict[str, Progression] | None:
    """The best runs of two parameters with few values, wherever they lie; ``None`` where there are too many."""
    windows = {name: Range(here.min, here.max) for name, here in values.items()}
    counts = [window.count for window in windows.values()]
    if None in counts or counts[0] * counts[1] > FEW_CELLS or any(here.is_empty for here in values.values()):  # type: ignore[operator]
        return None
    plane = Plane.of(conditions, windows, values, clock)
    if plane is None:
        return None
    columns = {}
    for name, window in windows.items():
        assert window.count is not None
        wanted = {1, *steps, *range(1, min(window.count, SMALL_STEPS) + 1)}
        classes = (
            progression(s, (window.min or 0) + r, window, values[name].range)
            for s in wanted
            if s <= window.count
            for r in range(s)
        )
        columns[name] = [run for run in classes if run.kept]
    best: dict[str, Progression] | None = None
    for runs in combined(columns):
        if clock.out or (best is not None and volume(runs) > volume(best)):
            break
        found = plane.best_anywhere(runs, clock)
        if found and (best is None or (volume(found), words(found)) < (volume(best), words(best))):
            best = found
    return best
