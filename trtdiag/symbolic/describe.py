"""Puts a ``ValueSet`` into words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from trtdiag.symbolic import patterns
from trtdiag.symbolic.ranges import Range

if TYPE_CHECKING:  # a set says itself in these words
    from trtdiag.symbolic.stretch import Stretch
    from trtdiag.symbolic.valueset import ValueSet

MOST_LISTED = 6
MOST_STRETCHES = 4
MOST_RUNS = 12


def describe(values: ValueSet, name: str) -> str:
    """The set as a condition on ``name``, as short as it goes."""
    if values.is_empty:
        return "nothing"
    missing = values.complement()
    if missing.is_empty:
        return "all"
    count = values.count
    if values.single is not None:
        return f"{name} == {values.single}"
    if len(values.stretches) == 1 and (count is None or count > 2):
        return _stretch(values.stretches[0], values.range, name)
    if count is not None and count <= MOST_LISTED:
        return _braced(list(values.members(MOST_LISTED)))
    if missing.single is not None:
        return f"{name} != {missing.single}"
    if missing.count is not None and missing.count <= 3:
        return f"all but {_braced(list(missing.members(3)))}"
    parts = list(values.stretches)
    shown = parts[: MOST_STRETCHES - 1] + parts[MOST_STRETCHES - 1 :][-1:]
    texts = [_stretch(part, values.range, name) for part in shown]
    if len(parts) > MOST_STRETCHES:
        # The last stretch is where the pattern settles: it says more than those between.
        texts.insert(-1, f"{len(parts) - MOST_STRETCHES} more stretches")
    return " or ".join(texts)


def _braced(values: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


def _stretch(part: Stretch, range_: Range, name: str) -> str:
    if part.low is not None and part.low == part.high:
        return f"{name} == {part.low}"
    pattern = _pattern(part, name)
    if pattern is None:
        return _ends(part, range_, name) or f"any {name}"
    ends = _ends(part, range_, name)
    return f"{ends} with {pattern}" if ends else pattern


def _ends(part: Stretch, range_: Range, name: str) -> str:
    """The ends that the range and the pattern do not already give; empty when they give both."""
    whole = replace(part, low=range_.min, high=range_.max)
    low = None if range_.min is not None and part.low == whole.at_least(range_.min) else part.low
    high = None if range_.max is not None and part.high == whole.at_most(range_.max) else part.high
    if low is not None and high is not None:
        return f"{low}..{high}"
    if low is not None:
        return f"{name} >= {low}"
    return f"{name} <= {high}" if high is not None else ""


def _pattern(part: Stretch, name: str) -> str | None:
    period = len(part.mask)
    if period == 1:
        return None
    residues = np.flatnonzero(part.mask).tolist()
    if part.low is not None and part.high is not None and part.high - part.low < 2 * period - 1:
        count = part.high - part.low + 1
        spelled = np.flatnonzero(patterns.stretch(part.mask, part.low, count))
        return f"{name} in {_runs([part.low + int(offset) for offset in spelled])}"
    if len(residues) == 1:
        return f"{name} % {period} == {residues[0]}"
    if len(residues) == period - 1:
        return f"{name} % {period} != {next(r for r in range(period) if not part.mask[r])}"
    inside, outside = _runs(residues), _runs(np.flatnonzero(~part.mask).tolist())
    if 2 * len(outside) < len(inside):
        return f"{name} % {period} not in {outside}"
    return f"{name} % {period} in {inside}"


def _runs(values: Sequence[int]) -> str:
    """``{0..3, 8}``: runs of three or more as ``a..b``."""
    texts: list[str] = []
    for _, members in groupby(enumerate(values), lambda place: place[1] - place[0]):
        run = [value for _, value in members]
        texts.extend([f"{run[0]}..{run[-1]}"] if len(run) > 2 else map(str, run))
    if len(texts) > MOST_RUNS:
        texts = [*texts[:MOST_RUNS], f"... ({len(values)} in all)"]
    return "{" + ", ".join(texts) + "}"
