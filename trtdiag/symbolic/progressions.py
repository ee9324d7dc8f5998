"""The subsets of a value set that a ``Dim`` can say: an interval, or ``a*d + b`` for an interval of ``d``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm

import numpy as np

from trtdiag.symbolic import patterns
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.valueset import ValueSet

MOST_STEP = 1 << 12
FREE_STEPS = 64  # steps tried where the set itself suggests none
MOST_ANCHORS = 16


@dataclass(frozen=True, slots=True)
class Progression:
    """The values ``step*d + offset`` for ``d`` in ``range``, all of them allowed.

    ``offset`` is ``0 <= offset < step``, so that no derived size is negative for a ``d`` of zero or more.

    Attributes:
        step: 1 for a plain interval.
        offset: Zero for a plain interval.
        range: Of ``d``; of the values themselves where the step is 1.
        kept: How many values; ``None`` when infinitely many.
        asked: The range that values were requested from.
    """

    step: int
    offset: int
    range: Range
    kept: int | None
    asked: Range

    @property
    def single(self) -> int | None:
        """The only value, where there is one: no ``Dim`` can say it, a plain number can."""
        value = self.range.single
        return None if value is None else self.step * value + self.offset

    @property
    def extent(self) -> Range:
        """From the least value to the greatest."""
        return self.range.scaled(self.step, self.offset)

    @property
    def values(self) -> ValueSet:
        """The values as a set inside the requested range."""
        return ValueSet.residues(self.step, [self.offset], self.extent.intersect(self.asked)).within(self.asked)

    def __contains__(self, value: int) -> bool:
        return value in self.extent and value % self.step == self.offset

    def describe(self, name: str) -> str:
        """The values in words: ``h % 8 == 0``, ``h <= 512``."""
        return self.values.describe(name)


def progressions(values: ValueSet, example: int | None = None) -> list[Progression]:
    """Everything that one ``Dim`` can say inside ``values``, best first.

    Each is as long as its form allows.  One that lies inside another of fewer steps is left out.

    Args:
        values: The allowed values.
        example: Where it is allowed, only sets that contain it are given.
    """
    if values.is_empty:
        return []
    anchors = [example] if example is not None and example in values else list(_anchors(values))
    missing = values.complement()
    found: dict[tuple[int, int, Range], Progression] = {}
    for step in _steps(values):
        for anchor in anchors:
            run = run_through(missing, anchor, step)
            found.setdefault((run.step, run.offset, run.range), run)
    # A single value is no Dim; it is worth saying only where nothing else is left.
    several = [run for run in found.values() if run.kept != 1]
    return _undominated(sorted(several or found.values(), key=rank))


def _steps(values: ValueSet) -> list[int]:
    """Divisors of the periods in the set, and small numbers where a part of it repeats nothing."""
    periods = {len(part.mask) for part in values.stretches}
    whole = lcm(*periods)
    if whole <= MOST_STEP * MOST_STEP:
        periods.add(whole)
    steps = {1}
    # A step that divides no period meets every residue of its class within that many values, or ends before: with as
    # many periods as values in one it never keeps more than the period itself as a step does.
    irregular = len(values.stretches) > 1 or any(
        part.low is not None and part.high is not None and part.high - part.low + 1 < len(part.mask) ** 2
        for part in values.stretches
    )
    for period in periods:
        steps.update(step for step in range(1, min(period, MOST_STEP) + 1) if period % step == 0)
    return sorted(steps | set(range(1, FREE_STEPS + 1)) if irregular else steps)


def _anchors(values: ValueSet) -> Iterator[int]:
    """Members to start from: those of one period in each of the largest parts."""
    parts = sorted(values.stretches, key=lambda part: -(part.count if part.count is not None else 1 << 80))
    for part in parts[:8]:
        start = part.low if part.low is not None else (0 if part.high is None else part.high - len(part.mask) + 1)
        window = len(part.mask) if part.high is None else min(len(part.mask), part.high - start + 1)
        offsets = np.flatnonzero(patterns.stretch(part.mask, start, window))
        yield from (start + int(offset) for offset in offsets[:MOST_ANCHORS])


def run_through(missing: ValueSet, anchor: int, step: int) -> Progression:
    """The longest stretch of the anchor's class modulo ``step`` around it that has no member of ``missing``."""
    asked = missing.range
    below, above = missing.at_most(anchor, step), missing.at_least(anchor, step)
    low = asked.min if below is None else below + step
    high = asked.max if above is None else above - step
    return progression(step, anchor % step, Range(low, high), asked)


def progression(step: int, offset: int, extent: Range, asked: Range) -> Progression:
    """The values of one class modulo ``step`` inside ``extent``."""
    offset %= step
    roots = extent.unscaled(step, offset)
    if roots.single is not None:  # one value is the same in every form
        return single(step * roots.single + offset, asked)
    return Progression(step, offset, roots, roots.count, asked)


def single(value: int, asked: Range) -> Progression:
    """One value alone."""
    return Progression(1, 0, Range(value, value), 1, asked)


def rank(run: Progression) -> tuple[int, int, int, int, int]:
    """Most values first (of infinite ones the densest), then the simplest to say, then the lowest."""
    kept = run.kept
    return (kept is not None, run.step if kept is None else -kept, run.step, run.offset, run.range.min or 0)


def _undominated(ranked: list[Progression]) -> list[Progression]:
    kept: list[Progression] = []
    for candidate in ranked:
        if not any(lies_inside(candidate, other) for other in kept):
            kept.append(candidate)
    return kept


def lies_inside(small: Progression, large: Progression) -> bool:
    """Whether every value of ``small`` is one of ``large``."""
    first, last = small.extent, large.extent
    below = last.min is not None and (first.min is None or first.min < last.min)
    above = last.max is not None and (first.max is None or first.max > last.max)
    return small.step % large.step == 0 and small.offset % large.step == large.offset and not below and not above
