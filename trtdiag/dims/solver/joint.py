"""Runs for several parameters such that their joint conditions hold for every combination."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random

import numpy as np

from trtdiag.dims.solver.combinations import combined, steps_of
from trtdiag.dims.solver.constraint_checker import ConstraintChecker
from trtdiag.dims.solver.exhaustive_grid_search import best_of_all
from trtdiag.dims.solver.expand import expanded
from trtdiag.dims.solver.pairs import Plane, best_pair_anywhere
from trtdiag.dims.solver.runs import best_runs
from trtdiag.dims.solver.sampled_grid_search import best_of_some
from trtdiag.dims.solver.solving import Sets
from trtdiag.dims.solver.time_limit import Clock
from trtdiag.dims.solver.volume import volume, words
from trtdiag.symbolic import Progression, Range, ValueSet, free_symbols, holds_array, substitute
from trtdiag.symbolic.conditions import all_of
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.progressions import run_through

MOST_ANCHORS = 4
FEW_MEMBERS = 64
TRIES = 1 << 12
MOST_COMPARED = 1 << 8
SHARE = 0.2  # of the time that is left, for one combination of steps
PATIENCE = 12  # combinations in a row that may better nothing


@dataclass(frozen=True)
class JointRuns:
    """The best runs found.

    Attributes:
        runs: Parameter -> its values.
        free: Whether the joint conditions take nothing away from any parameter.
        undecided: How many conditions were neither shown to hold over the runs nor seen to break.
    """

    runs: Mapping[str, Progression]
    free: bool
    undecided: int = 0


def joint_runs(
    values: Mapping[str, ValueSet],
    point: Mapping[str, int],
    kept: frozenset[str],
    alone: Mapping[str, Progression],
    conditions: Sequence[Condition],
    sets: Sets,
) -> JointRuns | None:
    """The best runs found; ``None`` where no combination is known for which the conditions hold.

    Args:
        values: Parameter -> what its own conditions allow.
        point: Values that satisfy everything; empty where none is known.
        kept: The parameters whose value in ``point`` must stay.
        alone: The best run of each parameter without the conditions.
        conditions: To hold for every combination.
        sets: Solves what is asked of one parameter.
    """
    oracle = ConstraintChecker(conditions, sets.clock)
    verdicts = {condition: oracle.one(condition, alone) for condition in conditions}
    if False not in verdicts.values():
        return JointRuns(alone, True, list(verdicts.values()).count(None))
    # What cannot be decided and broke nowhere would stop every step outwards: it is left open instead.
    conditions = [condition for condition, verdict in verdicts.items() if verdict is not None]
    oracle = ConstraintChecker(conditions, sets.clock)
    best: Mapping[str, Progression] | None = None
    if len(alone) == 2 and not kept & alone.keys():
        best = best_pair_anywhere(conditions, values, steps_of(conditions), sets.clock)
    for anchor in _anchors(values, point, kept, conditions, alone) if best is None else ():
        found = _around(values, anchor, conditions, oracle, sets)
        if found and (best is None or (volume(found), words(found)) < (volume(best), words(best))):
            best = found
        if sets.clock.out:
            break
    return None if best is None else JointRuns(best, False, list(verdicts.values()).count(None))


def _around(
    values: Mapping[str, ValueSet],
    point: Mapping[str, int],
    conditions: Sequence[Condition],
    oracle: ConstraintChecker,
    sets: Sets,
) -> dict[str, Progression] | None:
    """The best runs that contain ``point``."""
    reachable = {name: beside_others(name, values[name], point, conditions, sets) for name in values}
    if any(point[name] not in here for name, here in reachable.items()):
        return None
    if len(values) > 2:
        everything = best_of_all(conditions, reachable, point, sets.clock.part(SHARE))
        if everything is not None:
            return everything
    steps = steps_of(conditions)
    columns = {name: _columns(here, point[name], steps) for name, here in reachable.items()}
    plane = _plane(columns, conditions, values, sets) if len(values) == 2 else None
    candidates = combined(columns) if plane is not None else _promising(columns, oracle, point, sets.clock)
    best: dict[str, Progression] | None = None
    idle = 0
    for widest in candidates:
        if best is not None:
            if sets.clock.out or (plane is None and idle > PATIENCE):
                break
            if volume(widest) > volume(best):
                continue
        oracle.clock = sets.clock.part(SHARE)
        if plane is not None:
            found = plane.best_around(widest, point)
        else:
            found = best_of_some(oracle, widest, point) or expanded(oracle, widest, point)
        idle += 1
        if found and (best is None or (volume(found), words(found)) < (volume(best), words(best))):
            best, idle = found, 0
    return best


def _promising(
    columns: Mapping[str, Sequence[Progression]], oracle: ConstraintChecker, point: Mapping[str, int], clock: Clock
) -> Iterator[dict[str, Progression]]:
    """Combinations of steps: the widest first, then those at which nothing breaks nearby, then the others.

    Where something breaks nearby the runs mostly end at once, so these would waste the time.
    """
    candidates = combined(columns)
    first = next(candidates)
    yield first
    comparing = clock.part(SHARE)
    others = list(islice(candidates, MOST_COMPARED))
    unbroken = [widest for widest in others if not comparing.out and oracle.holds_nearby(widest, point)]
    yield from unbroken
    yield from (widest for widest in others if widest not in unbroken)
    yield from candidates


def beside_others(
    name: str, values: ValueSet, point: Mapping[str, int], conditions: Sequence[Condition], sets: Sets
) -> ValueSet:
    """What ``name`` may be while all others keep their value: no run around the point can leave it."""
    fixed = {other: value for other, value in point.items() if other != name}
    own = [substitute(condition, fixed) for condition in conditions if name in free_symbols(condition)]
    found = sets.all(own, name, values.range)[0].values
    return values.intersect(found)


def _columns(values: ValueSet, anchor: int, steps: Sequence[int]) -> list[Progression]:
    missing = values.complement()
    wanted = {1, *steps, *steps_of((), values.range), *(run.step for run in best_runs(values, anchor))}
    return list(dict.fromkeys(run_through(missing, anchor, step) for step in sorted(wanted)))


def _plane(
    columns: Mapping[str, Sequence[Progression]],
    conditions: Sequence[Condition],
    values: Mapping[str, ValueSet],
    sets: Sets,
) -> Plane | None:
    windows = {}
    for name, runs in columns.items():
        lows, highs = [run.extent.min for run in runs], [run.extent.max for run in runs]
        if None in lows or None in highs:
            return None
        windows[name] = Range(min(low for low in lows if low is not None), max(h for h in highs if h is not None))
    return Plane.of(conditions, windows, values, sets.clock)


def _spread(run: Progression) -> list[int]:
    """Values from all over the run, of an endless one from its begin."""
    low = run.range.min if run.range.min is not None else 0
    high = run.range.max if run.range.max is not None else low + FEW_MEMBERS**2
    places = {low + (high - low) * index // FEW_MEMBERS for index in range(FEW_MEMBERS + 1)}
    return [run.step * place + run.offset for place in sorted(places)]


def _anchors(
    values: Mapping[str, ValueSet],
    point: Mapping[str, int],
    kept: frozenset[str],
    conditions: Sequence[Condition],
    alone: Mapping[str, Progression],
) -> Iterator[dict[str, int]]:
    """Points that satisfy everything, to look for runs around: the known one, and where it need not be kept others."""
    if all(name in point and point[name] in here for name, here in values.items()):
        yield {name: point[name] for name in sorted(values)}
        if values.keys() <= kept:
            return
    chooser = Random(0)  # the same points in every run
    columns = {}
    for name in values:
        members = [point[name]] if name in kept and name in point else _spread(alone[name])
        columns[name] = np.array([chooser.choice(members) for _ in range(TRIES)], dtype=object)
    try:
        places = np.flatnonzero(np.asarray(holds_array(all_of(conditions), columns)))
    except (OverflowError, ValueError):
        return
    for place in places[:: max(1, len(places) // MOST_ANCHORS)][:MOST_ANCHORS]:
        yield {name: int(column[place]) for name, column in columns.items()}
