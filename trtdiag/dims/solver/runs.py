"""Progressions of wanted steps inside a set, and expressions along them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trtdiag.symbolic import Progression, Range, ValueSet, add, children, mul, progressions, substitute
from trtdiag.symbolic.expr import Condition, Expr, Num, Sym

MOST_ANCHORS = 16
MOST_SPELLED = 1 << 16  # a pattern of this length is compared value by value


def run_through(missing: ValueSet, anchor: int, step: int) -> Progression:
    """The longest stretch of the anchor's class modulo ``step`` around it that has no member of ``missing``."""
    asked = missing.range
    below, above = missing.at_most(anchor, step), missing.at_least(anchor, step)
    low = asked.min if below is None else below + step
    high = asked.max if above is None else above - step
    return progression(step, anchor % step, Range(low, high), asked)


def progression(step: int, offset: int, extent: Range, asked: Range) -> Progression:
    """The values of one class modulo ``step`` inside ``extent``."""
    offset %= step
    roots = Range(
        None if extent.min is None else -((offset - extent.min) // step),
        None if extent.max is None else (extent.max - offset) // step,
    )
    if roots.single is not None and step != 1:
        value = step * roots.single + offset
        return Progression(1, 0, Range(value, value), 1, asked)
    return Progression(step, offset, roots, roots.count, asked)


def moved(run: Progression, factor: int, offset: int, asked: Range) -> Progression:
    """The values ``factor*v + offset`` of all values of ``run``, with ``factor`` of 1 or more."""
    ends = [None if end is None else factor * end + offset for end in (run.extent.min, run.extent.max)]
    return progression(factor * run.step, factor * run.offset + offset, Range(*ends), asked)


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


def single(value: int, asked: Range) -> Progression:
    """One value alone."""
    return Progression(1, 0, Range(value, value), 1, asked)


def best_runs(values: ValueSet, anchor: int | None, steps: Iterable[int] = ()) -> list[Progression]:
    """What one ``Dim`` can say inside ``values``, best first; ``steps`` are tried besides those seen in the set."""
    found = progressions(values, anchor)
    kept = anchor if anchor is not None and anchor in values else None
    missing = values.complement()
    anchors = [kept] if kept is not None else list(values.members(MOST_ANCHORS))
    for step in steps:
        for start in anchors:
            run = run_through(missing, start, step)
            if run.kept != 1 and run not in found and not any(_inside(run, other) for other in found):
                found.append(run)
    if any(run.kept != 1 for run in found):
        found = [run for run in found if run.kept != 1]
    return sorted(found, key=rank)


def rank(run: Progression) -> tuple[int, int, int, int, int]:
    """Most values first (of infinite ones the densest), then the simplest to say, then the lowest."""
    kept = run.kept
    return (kept is not None, run.step if kept is None else -kept, run.step, run.offset, run.range.min or 0)


def _inside(small: Progression, large: Progression) -> bool:
    first, last = small.extent, large.extent
    below = last.min is not None and (first.min is None or first.min < last.min)
    above = last.max is not None and (first.max is None or first.max > last.max)
    return small.step % large.step == 0 and small.offset % large.step == large.offset and not below and not above


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
