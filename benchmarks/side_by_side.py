"""Two calls that do the same, measured fairly: CPU time alternately, each at its best; and the memory of torch.fx's."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from torch.fx import Graph, Node


def best_of_both(
    first: Callable[[], Any], second: Callable[[], Any], *, runs: int = 200, budget_s: float = 2.0
) -> tuple[float, float]:
    """The least CPU seconds of each of two calls, run in turn: what slows the machine down slows both.

    Args:
        first: A call.
        second: Another one.
        runs: Of each, at most; at least one.
        budget_s: CPU time of all runs after which no further pair begins.
    """
    best = [float("inf"), float("inf")]
    began = time.process_time()
    for _ in range(runs):
        for index, call in enumerate((first, second)):
            start = time.process_time()
            call()
            best[index] = min(best[index], time.process_time() - start)
        if time.process_time() - began > budget_s:
            break
    return best[0], best[1]


def torch_gib(graph: Graph) -> float:
    """GiB that torch.fx's partitioner takes for a graph: for each node the set of all nodes that come after it.

    Counted with one bit for a node, so that nothing like it is needed here.
    """
    places = {node: 1 << place for place, node in enumerate(graph.nodes)}
    grown: set[int] = set()
    set_bytes = [sys.getsizeof(grown)]
    for size in range(len(places)):
        grown.add(size)
        set_bytes.append(sys.getsizeof(grown))
    after: dict[Node, int] = {}
    total = 0
    for node in reversed(graph.nodes):
        reached = 0
        for user in node.users:
            reached |= after[user] | places[user]
        after[node] = reached
        total += set_bytes[bin(reached).count("1")]
    return total / 2**30
