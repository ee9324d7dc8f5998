"""Numbers as the explorer's data write them: by what one expects next, which packs to nothing where it comes true."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from trtdiag.report.drawing.levels import Box
from trtdiag.report.drawing.nodes import DrawnNode
from trtdiag.report.strict_json import Json
from trtdiag.wording import one_line


def steps(numbers: Sequence[int]) -> list[Json]:
    """Each number less the one before it: runs of neighbours become runs of ones."""
    return [number - before for number, before in zip(numbers, (0, *numbers), strict=False)]


def names(nodes: Sequence[DrawnNode]) -> tuple[list[Json], list[Json]]:
    """For each node 0 where its name is the next of its op (``add``, ``add_1``), else 1; and the names of the latter.

    What is not called so counts on all the same.
    """
    counts: Counter[str] = Counter()
    told: list[Json] = []
    others: list[Json] = []
    for node in nodes:
        parts = node.op.split(".")
        base = parts[-2] if len(parts) > 2 else parts[-1]
        expected = f"{base}_{counts[base]}" if counts[base] else base
        counts[base] += 1
        name = one_line(node.name)
        told.append(int(name != expected))
        if name != expected:
            others.append(name)
    return told, others


def reads(nodes: Sequence[DrawnNode]) -> list[Json]:
    """For each node how far back each value is that it reads; ``None`` for the first node that nobody has read yet.

    Weights stand first and are mostly read in their order.
    """
    unread, read = 0, [False] * len(nodes)
    found: list[Json] = []
    for at, node in enumerate(nodes):
        row: list[Json] = []
        for source in node.reads:
            row.append(None if source == unread else at - source)
            read[source] = True
            while unread < len(nodes) and read[unread]:
                unread += 1
        found.append(row)
    return found


def boxes(row: Sequence[Box]) -> list[Json]:
    """0 for the next group: they are numbered in the order of their boxes; for a node the step from the last."""
    found: list[Json] = []
    last = -1
    for box in row:
        found.append(0 if box.group is not None else box.number - last)
        last = last if box.group is not None else box.number
    return found


def curve(points: Sequence[tuple[float, float]], start: tuple[float, float]) -> list[Json]:
    """Whole pixels, each point from the one before it, the first from ``start``, the middle of its first box."""
    found: list[Json] = []
    before = _pixel(start[0]), _pixel(start[1])
    for x, y in points:
        here = _pixel(x), _pixel(y)
        found += [here[0] - before[0], here[1] - before[1]]
        before = here
    return found


def tenths(value: float) -> float | int:
    """A coordinate of a box: ``12.5``, ``12``."""
    rounded = round(value, 1)
    return int(rounded) if rounded == int(rounded) else rounded


def _pixel(value: float) -> int:
    """As JavaScript rounds the written coordinate."""
    return math.floor(tenths(value) + 0.5)
