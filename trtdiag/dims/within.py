"""Joint conditions, judged only where the conditions on single symbols hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from trtdiag.symbolic import ValueSet, holds_array
from trtdiag.symbolic.expr import Condition

MOST_POINTS = 1 << 22
"""Points tried at most: four million take about a second for a guard of ten operations."""


@dataclass(frozen=True)
class Within:
    """The outcome of trying every point: how many, and the breaking and a holding one, by symbol."""

    points: int
    counterexample: Mapping[str, int] | None
    witness: Mapping[str, int] | None


def try_all(condition: Condition, sets: Mapping[str, ValueSet]) -> Within | None:
    """Try ``condition`` at every combination of the values in ``sets``; ``None`` when there are too many.

    The counterexample is the first in lexicographic order of the symbols' names, the witness the holding point
    nearest to it in that order.
    """
    names = sorted(sets)
    counts = [sets[name].count for name in names]
    known = [count for count in counts if count is not None]
    if len(known) < len(names) or prod(known) > MOST_POINTS:
        return None
    axes = [
        np.fromiter(sets[name].members(MOST_POINTS), dtype=np.int64, count=n)
        for name, n in zip(names, known, strict=True)
    ]
    grid = np.meshgrid(*axes, indexing="ij")
    flat = {name: values.reshape(-1) for name, values in zip(names, grid, strict=True)}
    holds = np.asarray(holds_array(condition, flat)).reshape(-1)
    total = int(prod(known))
    broken = np.flatnonzero(~holds)
    if len(broken) == 0:
        return Within(total, None, None)
    at = int(broken[0])
    good = np.flatnonzero(holds)
    near = int(good[np.argmin(np.abs(good - at))]) if len(good) else None
    return Within(total, _point(flat, at), None if near is None else _point(flat, near))


def _point(flat: Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.int64]]], at: int) -> dict[str, int]:
    return {name: int(values[at]) for name, values in flat.items()}
