"""CPU time of two calls that do the same, measured fairly: alternately, each at its best."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


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
