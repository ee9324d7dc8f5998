"""The packed data of a drawn graph, read independently of the page's script."""

from __future__ import annotations

from itertools import accumulate
from typing import Any


def names_of(data: Any) -> list[str]:
    """The name of each node."""
    counts: dict[str, int] = {}
    told = iter(data["names"])
    found = []
    for at, is_told in enumerate(data["nodes"]["name"]):
        parts = data["texts"][data["nodes"]["op"][at]].split(".")
        base = parts[-2] if len(parts) > 2 else parts[-1]
        count = counts.setdefault(base, 0)
        counts[base] += 1
        found.append(next(told) if is_told else f"{base}_{count}" if count else base)
    return found


def reads_of(data: Any) -> list[list[int]]:
    """The positions that each node reads."""
    unread = list(range(len(data["nodes"]["reads"])))
    found = []
    for at, steps in enumerate(data["nodes"]["reads"]):
        row = []
        for step in steps:
            row.append(unread[0] if step is None else at - step)
            if row[-1] in unread:
                unread.remove(row[-1])
        found.append(row)
    return found


def boxes_of(groups: Any) -> tuple[list[int], int]:
    """The nodes that are boxes of a view, sorted, and how many of its boxes are groups."""
    nodes = [at - 1 for group in groups for at in accumulate(step for step in group[5] if step)]
    return sorted(nodes), sum(step == 0 for group in groups for step in group[5])
