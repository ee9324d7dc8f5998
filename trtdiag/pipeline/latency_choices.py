"""Which blocks to run in which way, from the times of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from trtdiag.analysis.backend_times import way_name
from trtdiag.pipeline.program_times import WORTH_IT
from trtdiag.wording import amount

FEWEST_CHANGES = (1, 2, math.inf)
"""Own choice: how often the way may change, from few to as often as the blocks' times say."""


def choices(times: Sequence[Mapping[str, float]], kinds: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Ways for all blocks: each kind alone, then the least sums of times with ever more changes of the way.

    Each is a whole program to build.  Alone a block pays for its edges, which those of one kind do not have in between:
    so what is hardly less by its sum than a program with fewer changes will not be faster than that.

    Args:
        times: Of each block the time of each way that it can run in.
        kinds: The ways that there are.
    """
    least = math.inf
    for kind in kinds:
        if all(kind in row for row in times):
            least = min(least, sum(row[kind] for row in times))
            yield tuple(kind for _ in times)
    for most in FEWEST_CHANGES if all(times) else ():
        mixed = least_sum(times, most)
        took = sum(row[kind] for row, kind in zip(times, mixed, strict=True))
        if took < least * (1 - WORTH_IT):
            least = took
            yield mixed


def least_sum(times: Sequence[Mapping[str, float]], most_changes: float) -> tuple[str, ...]:
    """For each block a way, such that the sum of the times is the least with at most so many changes.

    Args:
        times: Of each block the time of each way that there is; at least one.
        most_changes: How often the way may change from a block to the next; exceeded where ways are missing.
    """
    most = min(most_changes, len(times))
    kept: dict[tuple[str, int], tuple[float, tuple[str, ...]]] = {
        (kind, 0): (took, (kind,)) for kind, took in times[0].items()
    }
    for row in times[1:]:
        found: dict[tuple[str, int], tuple[float, tuple[str, ...]]] = {}
        for (last, changes), (total, path) in kept.items():
            for kind, took in row.items():
                more = changes + (kind != last)
                if more > most and len(row) > 1 and last in row:
                    continue
                best = found.get((kind, more))
                if best is None or total + took < best[0]:
                    found[kind, more] = total + took, (*path, kind)
        kept = found
    return min(kept.values())[1]


def named(kinds: Sequence[str]) -> str:
    """``TensorRT``, or ``TensorRT and AOTInductor, 3 changes``."""
    names = list(dict.fromkeys(map(way_name, kinds)))
    changes = sum(one != other for one, other in pairwise(kinds))
    return " and ".join(names) + (f", {amount(changes, 'change')}" if changes else "")
