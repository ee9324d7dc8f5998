"""The fewest segments: ops by level, where a level is one run of an engine.

Along any path of the graph, supported ops with an unsupported op between them can never share a segment, so a program
needs at least as many segments as the path with the most such alternations has.  Giving every op the earliest level
that its predecessors allow reaches that number exactly, which also means that no two of the segments could be
merged.  One pass over the edges does it: no search for cycles is needed, because edges never lead to a lower level.
"""

from __future__ import annotations

from collections.abc import Sequence

Edges = Sequence[Sequence[int]]


def earliest_levels(before: Edges, supported: Sequence[bool]) -> list[int]:
    """Return, for each op, the segment that it is in (from 1), or how many must have run before an unsupported one.

    Args:
        before: For each op, those that come before it; every op comes after its own in the sequence.
        supported: Whether an op may be in a segment.

    Cost: linear in edges.
    """
    if all(supported):
        return [1] * len(before)
    levels: list[int] = []
    for index, inside in enumerate(supported):  # earliest_level, without a call for each op
        earliest = int(inside)
        for other in before[index]:
            least = levels[other] + 1 if inside and not supported[other] else levels[other]
            if least > earliest:
                earliest = least
        levels.append(earliest)
    return levels


def earliest_level(index: int, before: Edges, supported: Sequence[bool], levels: Sequence[int]) -> int:
    """Return the earliest level of one op whose predecessors have theirs."""
    inside = supported[index]
    earliest = int(inside)
    for other in before[index]:
        least = levels[other] + 1 if inside and not supported[other] else levels[other]
        if least > earliest:
            earliest = least
    return earliest


def latest_levels(after: Edges, supported: Sequence[bool], last: int) -> list[int]:
    """Return, for each op, the latest level it may have when there are ``last`` segments."""
    levels = [last] * len(after)
    for index in range(len(after) - 1, -1, -1):
        levels[index] = latest_level(index, after, supported, levels, last)
    return levels


def latest_level(index: int, after: Edges, supported: Sequence[bool], levels: Sequence[int], last: int) -> int:
    """Return the latest level of one op whose successors have theirs."""
    latest = last
    for other in after[index]:
        most = levels[other] - 1 if supported[other] and not supported[index] else levels[other]
        if most < latest:
            latest = most
    return latest


def without_small(
    before: Edges, after: Edges, supported: Sequence[bool], work: Sequence[bool], least: int
) -> tuple[list[bool], list[int]]:
    """Return what is still supported, and the levels, once every segment has ``least`` ops that compute.

    Of a segment that is too small only the ops that can be in no other one go back to PyTorch; the rest moves to the
    neighbours.  Each round has fewer segments than the one before, so it ends.

    Cost: linear in edges for each round; a handful of rounds in practice, at most one for each segment.
    """
    left = list(supported)
    while True:
        levels = earliest_levels(before, left)
        last = max((level for level, inside in zip(levels, left, strict=True) if inside), default=0)
        counts = [0] * (last + 1)
        for level, inside, counted in zip(levels, left, work, strict=True):
            counts[level] += inside and counted
        small = {level for level in range(1, last + 1) if counts[level] < least}
        if not small:
            return left, levels
        latest = latest_levels(after, left, last)
        for index, level in enumerate(levels):
            if left[index] and level in small and latest[index] == level:
                left[index] = False
