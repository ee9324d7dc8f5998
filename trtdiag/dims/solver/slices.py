"""Runs of each symbol beside the others' examples, and their product where it holds.

Reshapes and windows record hundreds of joint guards that no search over boxes gets through, and that nearly fall apart:
what one symbol may be beside the others' examples it may mostly be beside their other values too.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice, product

from trtdiag.dims.joint_conditions import try_all
from trtdiag.dims.solver.constraint_checker import ConstraintChecker
from trtdiag.dims.solver.fitting import Fitted
from trtdiag.dims.solver.joint import beside_others
from trtdiag.dims.solver.layout import Layout
from trtdiag.dims.solver.runs import best_runs
from trtdiag.dims.solver.solving import Sets
from trtdiag.dims.solver.time_limit import Clock
from trtdiag.dims.solver.volume import volume
from trtdiag.symbolic import Progression, ValueSet, free_symbols
from trtdiag.symbolic.expr import Condition

MOST_RUNS = 4  # of one symbol
MOST_PRODUCTS = 24
MOST_SYMBOLS = 6
EXTRA_S = 6.0
"""Own choice: 259 guards of a window transformer over 300,000 combinations take 4 s on one core."""


def sliced(layout: Layout, sets: Sets) -> Fitted | None:
    """The best product of runs that holds; ``None`` where no product of several values was found.

    Args:
        layout: Every symbol its own parameter, each with a value at the point.
        sets: Remembers what is solved.
    """
    names = sorted(layout.ranges)
    if not 1 < len(names) <= MOST_SYMBOLS or any(name not in layout.point for name in names):
        return None
    clock = Clock(EXTRA_S)
    conditions = [claim.condition for claim in layout.claims]
    values: dict[str, ValueSet] = {}
    choices: list[list[Progression]] = []
    for name in names:
        values[name] = beside_others(name, ValueSet.full(layout.ranges[name]), layout.point, conditions, sets)
        best = best_runs(values[name], layout.point[name])[:MOST_RUNS]
        if not best or layout.point[name] not in values[name]:
            return None
        choices.append(best)
    joint = [claim for claim in layout.claims if len(claim.names) > 1]
    for picked in _largest_first(choices):
        runs = dict(zip(names, picked, strict=True))
        if clock.out:
            break
        if all(run.single is not None for run in picked):
            continue
        if all(_holds(claim.condition, runs, clock) for claim in joint):
            return Fitted(layout, runs, values, tuple(joint))
    return None


def _largest_first(choices: list[list[Progression]]) -> list[tuple[Progression, ...]]:
    every = list(islice(product(*choices), MOST_RUNS**MOST_SYMBOLS))
    names = [str(index) for index in range(len(choices))]
    every.sort(key=lambda picked: volume(dict(zip(names, picked, strict=True)), 0))
    return every[:MOST_PRODUCTS]


def _holds(condition: Condition, runs: Mapping[str, Progression], clock: Clock) -> bool:
    """Whether every combination satisfies it: all are tried where they are not too many."""
    mine = {name: runs[name] for name in free_symbols(condition)}
    tried = try_all(condition, {name: run.values for name, run in mine.items()})
    if tried is not None:
        return tried.counterexample is None
    return ConstraintChecker([condition], clock).holds(mine) is True
