"""Runs for several parameters such that their joint conditions hold for every combination."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest, nsmallest
from itertools import islice, product

from trtdiag.fixdims.clock import Clock
from trtdiag.fixdims.expand import expanded
from trtdiag.fixdims.layout import Claim
from trtdiag.fixdims.oracle import Oracle
from trtdiag.fixdims.runs import best_runs, numbers_in, run_through
from trtdiag.fixdims.sizes import volume, words
from trtdiag.symbolic import Progression, ValueSet

MOST_DIVIDED = 1 << 14
MOST_STEPS = 24
MOST_COMBINATIONS = 1 << 9


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


def steps_of(claims: Sequence[Claim]) -> tuple[int, ...]:
    """Steps worth trying: the divisors of the numbers in ``claims``, and these numbers."""
    numbers = set().union(*(numbers_in(claim.condition) for claim in claims))
    found = set(numbers)
    for number in numbers:
        if number <= MOST_DIVIDED:
            found.update(step for step in range(2, number + 1) if number % step == 0)
    return tuple(sorted({*nsmallest(MOST_STEPS, found), *(nlargest(4, numbers))}))


def joint_runs(parameters: Parameters, claims: Sequence[Claim], clock: Clock) -> dict[str, Progression] | None:
    """The best runs found; ``None`` where no combination is known for which the claims hold."""
    names = sorted(parameters.values)
    single_best: dict[str, Progression] = {}
    for name in names:
        runs = best_runs(parameters.values[name], parameters.anchor(name))
        if not runs:
            return None
        single_best[name] = runs[0]
    oracle = Oracle([claim.condition for claim in claims], clock)
    if oracle.holds(single_best):
        return single_best
    point = parameters.point
    if not all(name in point and point[name] in parameters.values[name] for name in names):
        return None
    steps = steps_of(claims)
    best: dict[str, Progression] | None = None
    for widest in _combinations(parameters, names, steps):
        if best is not None and volume(widest) >= volume(best):
            break
        if clock.out and best is not None:
            break
        found = expanded(oracle, widest, point)
        if best is None or (volume(found), words(found)) < (volume(best), words(best)):
            best = found
    return best


def _combinations(
    parameters: Parameters, names: Sequence[str], steps: Sequence[int]
) -> Iterator[dict[str, Progression]]:
    """Runs of every wanted step through the point, those that keep most first."""
    columns = []
    for name in names:
        values, point = parameters.values[name], parameters.point[name]
        missing = values.complement()
        wanted = {1, *steps, *(run.step for run in best_runs(values, point))}
        runs = {run_through(missing, point, step) for step in wanted}
        columns.append(sorted(runs, key=lambda run: (run.kept is not None, -(run.kept or 0), run.step)))
    every = [dict(zip(names, runs, strict=True)) for runs in islice(product(*columns), MOST_COMBINATIONS * 64)]
    every.sort(key=lambda runs: (volume(runs), words(runs)))
    return islice(iter(every), MOST_COMBINATIONS)
