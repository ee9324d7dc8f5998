"""Calls that do the same, measured fairly: CPU time in turn, each at its best; and the memory of torch.fx's."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from typing import Any

from torch.fx import Graph, Node


def best_of_each(*calls: Callable[[], Any], runs: int = 200, budget_s: float = 2.0) -> tuple[float, ...]:
    """The least CPU seconds of each call, run in turn: what slows the machine down slows all.

    Cyclic garbage is left alone meanwhile: a collection walks every object of torch's and of the model's, and falls on
    whoever happens to run.

    Args:
        calls: What to measure.
        runs: Of each, at most; at least one.
        budget_s: CPU time of all runs after which no further turn begins.
    """
    best = [float("inf")] * len(calls)
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        began = time.process_time()
        for _ in range(runs):
            for index, call in enumerate(calls):
                start = time.process_time()
                call()
                best[index] = min(best[index], time.process_time() - start)
            if time.process_time() - began > budget_s:
                break
    finally:
        if collecting:
            gc.enable()
    return tuple(best)


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
