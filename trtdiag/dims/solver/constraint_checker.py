"""Whether conditions hold for every combination of runs, with what was learned from earlier questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from trtdiag.dims.solver.runs import over
from trtdiag.dims.solver.time_limit import Clock
from trtdiag.symbolic import Progression, Range, check, free_symbols, holds_array
from trtdiag.symbolic.expr import Condition, Truth
from trtdiag.symbolic.grid import tuple_count

SAMPLES = 256
NEARBY = 16
SMALL = 1 << 62
FEW_TUPLES = 1 << 14  # tried even when the time is over
FAR = 1 << 40  # sampled values where a range has no end

Runs = Mapping[str, Progression]


class ConstraintChecker:
    """Answers for one set of conditions; points that broke one are remembered and tried first."""

    def __init__(self, conditions: Sequence[Condition], clock: Clock) -> None:
        self.conditions = tuple(conditions)
        self.clock = clock
        self.broken: list[dict[str, int]] = []
        self._chooser = Random(0)  # the same points in every run

    def holds(self, runs: Runs) -> bool | None:
        """Whether all conditions hold over ``runs``; ``None`` where that is not decided."""
        if any(all(point[name] in runs[name] for name in point) for point in self.broken):
            return False
        verdict: bool | None = True
        for condition in self.conditions:
            answer = self.one(condition, runs)
            if answer is False:
                return False
            verdict = verdict if answer else None
        return verdict

    def holds_nearby(self, runs: Runs, point: Mapping[str, int]) -> bool:
        """Whether no value of ``runs`` close to ``point`` was seen to break a condition: a hint, no proof."""
        near = {}
        for name, run in runs.items():
            centre = (point[name] - run.offset) // run.step
            window = run.range.intersect(Range(centre - NEARBY, centre + NEARBY))
            picks = [self._chooser.randint(window.min or 0, window.max or 0) for _ in range(SAMPLES)]
            near[name] = _array([run.step * pick + run.offset for pick in picks])
        try:
            return all(bool(np.all(holds_array(each, near))) for each in self.conditions)
        except (OverflowError, ValueError):
            return False

    def one(self, condition: Condition, runs: Runs) -> bool | None:
        """Whether one condition holds over ``runs``; ``None`` where that is not decided."""
        here = {name: runs[name] for name in free_symbols(condition)}
        moved, box = over(condition, here)
        if isinstance(moved, Truth):
            return moved.value
        if self._sampled(moved, box, here):
            return False
        count = tuple_count(sorted(box), box)
        if self.clock.out and (count is None or count > FEW_TUPLES):
            return None
        answer = check(moved, box, limit_s=self.clock.question_s)
        if answer.verdict == "breaks" and answer.counterexample is not None:
            self._remember(answer.counterexample, here)
        return {"holds": True, "breaks": False}.get(answer.verdict)

    def _remember(self, found: Mapping[str, int], runs: Runs) -> None:
        point = {}
        for name, run in runs.items():
            value = run.single
            point[name] = value if value is not None else run.step * found.get(name, run.range.min or 0) + run.offset
        self.broken.append(point)

    def _sampled(self, moved: Condition, box: Mapping[str, Range], runs: Runs) -> bool:
        """Whether ends or random values break it; a found point is remembered."""
        names = sorted(free_symbols(moved))
        columns = [self._values(box[name]) for name in names]
        arrays = {name: _array(column) for name, column in zip(names, columns, strict=True)}
        try:
            mask = np.asarray(holds_array(moved, arrays)).reshape(-1)
        except (OverflowError, ValueError):
            return False
        failing = np.flatnonzero(~mask)
        if not len(failing):
            return False
        at = int(failing[0])
        self._remember({name: int(column[at]) for name, column in zip(names, columns, strict=True)}, runs)
        return True

    def _values(self, range_: Range) -> list[int]:
        low = range_.min if range_.min is not None else -FAR
        high = range_.max if range_.max is not None else max(low, 0) + FAR
        ends = [low, high, min(low + 1, high), max(high - 1, low), (low + high) // 2]
        near = min(high, low + 64)
        picks = [self._chooser.choice(ends) for _ in range(SAMPLES // 2)]
        picks += [self._chooser.randint(low, near) for _ in range(SAMPLES // 4)]
        return picks + [self._chooser.randint(low, high) for _ in range(SAMPLES // 4)]


def _array(values: list[int]) -> npt.NDArray[Any]:
    small = all(-SMALL < value < SMALL for value in values)
    return np.array(values, dtype=np.int64 if small else object)
