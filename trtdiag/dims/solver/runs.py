"""Progressions of wanted steps inside a set, and expressions along them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from trtdiag.symbolic import Progression, Range, ValueSet, add, children, mul, progressions, substitute
from trtdiag.symbolic.expr import Condition, Expr, Num, Sym
from trtdiag.symbolic.progressions import lies_inside, progression, rank, run_through, single

MOST_ANCHORS = 16
MOST_SPELLED = 1 << 16  # a pattern of this length is compared value by value


def moved(run: Progression, factor: int, offset: int, asked: Range) -> Progression:
    """The values ``factor*v + offset`` of all values of ``run``, with ``factor`` of 1 or more."""
    return progression(factor * run.step, factor * run.offset + offset, run.extent.scaled(factor, offset), asked)


def same_run(first: Progression, second: Progression) -> bool:
    """Whether both have the same values (one value has one form, and more have one step)."""
    return (first.step, first.offset, first.range) == (second.step, second.offset, second.range)


def keeps_all(run: Progression, values: ValueSet) -> bool:
    """Whether ``run``, which lies inside ``values``, has all of them."""
    if run.kept is not None or values.count is not None:
        return run.kept == values.count
    return run.step <= MOST_SPELLED and run.values.same_members(values)


def fills(run: Progression, range_: Range) -> bool:
    """Whether ``run``, which lies inside ``range_``, has every value of it."""
    if run.kept is not None or range_.count is not None:
        return run.kept == range_.count
    return run.step == 1 and run.range == range_


def between(run: Progression, low: int | None, high: int | None) -> Progression:
    """The part of a run's class from step ``low`` to step ``high``; ``None`` is an open end."""
    range_ = Range(low, high)
    if range_.single is not None:
        return single(run.step * range_.single + run.offset, run.asked)
    return replace(run, range=range_, kept=range_.count)


def best_runs(values: ValueSet, anchor: int | None, steps: Iterable[int] = ()) -> list[Progression]:
    """What one ``Dim`` can say inside ``values``, best first; ``steps`` are tried besides those seen in the set."""
    found = progressions(values, anchor)
    kept = anchor if anchor is not None and anchor in values else None
    missing = values.complement()
    anchors = [kept] if kept is not None else list(values.members(MOST_ANCHORS))
    for step in steps:
        for start in anchors:
            run = run_through(missing, start, step)
            if run.kept != 1 and run not in found and not any(lies_inside(run, other) for other in found):
                found.append(run)
    if any(run.kept != 1 for run in found):
        found = [run for run in found if run.kept != 1]
    return sorted(found, key=rank)


def along(runs: Mapping[str, Progression]) -> dict[str, Expr | int]:
    """Parameter -> its value ``step*d + offset``, written with the parameter's own name for ``d``."""
    values: dict[str, Expr | int] = {}
    for name, run in runs.items():
        alone = run.single
        values[name] = alone if alone is not None else add(mul(run.step, Sym(name)), run.offset)
    return values


def over(condition: Condition, runs: Mapping[str, Progression]) -> tuple[Condition, dict[str, Range]]:
    """``condition`` over the ``d`` of each run, and the ranges of these."""
    return substitute(condition, along(runs)), {name: run.range for name, run in runs.items() if run.single is None}


def numbers_in(node: Expr | Condition) -> set[int]:
    """The integers above one that stand in ``node``, without their signs."""
    if isinstance(node, Num):
        return {abs(node.value)} - {0, 1} if isinstance(node.value, int) else {node.value.denominator}
    return set().union(*(numbers_in(child) for child in children(node)))
