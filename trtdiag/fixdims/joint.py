"""Runs for several parameters such that their joint conditions hold for every combination."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from trtdiag.fixdims.combinations import combined, steps_of
from trtdiag.fixdims.expand import expanded
from trtdiag.fixdims.oracle import Oracle
from trtdiag.fixdims.pairs import Plane, best_pair_anywhere
from trtdiag.fixdims.runs import best_runs, run_through
from trtdiag.fixdims.sizes import volume, words
from trtdiag.fixdims.solving import Sets
from trtdiag.symbolic import Progression, Range, ValueSet, free_symbols, holds_array, substitute
from trtdiag.symbolic.conditions import all_of
from trtdiag.symbolic.expr import Condition

MOST_ANCHORS = 4
FEW_MEMBERS = 64
TRIES = 1 << 12


@dataclass(frozen=True)
class Parameters:
    """What is known of a group of parameters before their joint conditions.

    Attributes:
        values: Parameter -> what its own conditions allow.
        point: Values that satisfy everything; empty where none is known.
        kept: The parameters whose value in ``point`` must stay.
    """

    values: Mapping[str, ValueSet]
    point: Mapping[str, int]
    kept: frozenset[str]

    def anchor(self, name: str) -> int | None:
        """The value that the run of ``name`` must contain, where there is one."""
        return self.point.get(name) if name in self.kept else None


@dataclass(frozen=True)
class JointRuns:
    """Runs over which all joint conditions hold; ``free`` where these take nothing away from any parameter."""

    runs: Mapping[str, Progression]
    free: bool


def joint_runs(parameters: Parameters, conditions: Sequence[Condition], sets: Sets) -> JointRuns | None:
    """The best runs found; ``None`` where no combination is known for which the conditions hold."""
    alone: dict[str, Progression] = {}
    for name, values in parameters.values.items():
        runs = best_runs(values, parameters.anchor(name))
        if not runs:
            return None
        alone[name] = runs[0]
    oracle = Oracle(conditions, sets.clock)
    verdicts = {condition: oracle.one(condition, alone) for condition in conditions}
    if False not in verdicts.values():
        return JointRuns(alone, free=None not in verdicts.values())
    # What cannot be decided and broke nowhere would stop every step outwards: it is left open instead.
    conditions = [condition for condition, verdict in verdicts.items() if verdict is not None]
    oracle = Oracle(conditions, sets.clock)
    best: Mapping[str, Progression] | None = None
    if len(alone) == 2 and not parameters.kept & alone.keys():
        best = best_pair_anywhere(conditions, parameters.values, steps_of(conditions), sets.clock)
    for point in _anchors(parameters, conditions) if best is None else ():
        found = _around(parameters.values, point, conditions, oracle, sets)
        if found and (best is None or (volume(found), words(found)) < (volume(best), words(best))):
            best = found
        if sets.clock.out:
            break
    return None if best is None else JointRuns(best, free=False)


def _around(
    values: Mapping[str, ValueSet],
    point: Mapping[str, int],
    conditions: Sequence[Condition],
    oracle: Oracle,
    sets: Sets,
) -> dict[str, Progression] | None:
    """The best runs that contain ``point``."""
    reachable = {name: _with_others_fixed(name, values[name], point, conditions, sets) for name in values}
    if any(point[name] not in here for name, here in reachable.items()):
        return None
    steps = steps_of(conditions)
    columns = {name: _columns(here, point[name], steps) for name, here in reachable.items()}
    plane = _plane(columns, conditions, values, sets) if len(values) == 2 else None
    best: dict[str, Progression] | None = None
    for widest in combined(columns):
        if best is not None and (volume(widest) > volume(best) or sets.clock.out):
            break
        found = expanded(oracle, widest, point) if plane is None else plane.best_around(widest, point)
        if found and (best is None or (volume(found), words(found)) < (volume(best), words(best))):
            best = found
    return best


def _with_others_fixed(
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


def _anchors(parameters: Parameters, conditions: Sequence[Condition]) -> Iterator[dict[str, int]]:
    """Points that satisfy everything, to look for runs around."""
    names = sorted(parameters.values)
    point = parameters.point
    if all(name in point and point[name] in parameters.values[name] for name in names):
        yield {name: point[name] for name in names}
        if all(name in parameters.kept for name in names):
            return
    chooser = Random(0)  # the same points in every run
    columns = {}
    for name, values in parameters.values.items():
        anchor = parameters.anchor(name)
        members = list(values.members(FEW_MEMBERS)) if anchor is None else [anchor]
        columns[name] = np.array([chooser.choice(members) for _ in range(TRIES)], dtype=object)
    try:
        places = np.flatnonzero(np.asarray(holds_array(all_of(conditions), columns)))
    except (OverflowError, ValueError):
        return
    for place in places[:: max(1, len(places) // MOST_ANCHORS)][:MOST_ANCHORS]:
        yield {name: int(column[place]) for name, column in columns.items()}
