"""Why a symbol keeps less than was asked, and what could be declared instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from trtdiag.dims.solver.combinations import steps_of
from trtdiag.dims.solver.connected_symbols import Answer, satisfied
from trtdiag.dims.solver.constraint_checker import ConstraintChecker
from trtdiag.dims.solver.fitting import Fitted
from trtdiag.dims.solver.layout import NOBODY, Claim, Layout
from trtdiag.dims.solver.runs import best_runs, fills, moved, same_run
from trtdiag.dims.solver.solving import Sets, causes
from trtdiag.dims.solver.variants import affine
from trtdiag.symbolic import BoundsCache, Progression, Range, Solution, ValueSet, free_symbols
from trtdiag.symbolic.expr import Condition, Sym
from trtdiag.symbolic.progressions import rank

MOST_ALTERNATIVES = 5
REASONS_SHARE = 0.1  # of the time that is left, to find the fewest
MOST_FACTOR = 1 << 8  # of a size in its parameter, for alternatives to be looked for


def narrowing(
    answer: Answer, solutions: Mapping[str, Solution], example: Mapping[str, int], sets: Sets
) -> dict[str, tuple[Condition, ...]]:
    """Symbol -> the fewest conditions because of which it keeps less than its asked range."""
    found = {}
    for name, range_ in answer.part.ranges.items():
        if answer.fit is None or not _narrowed(answer, name, range_):
            continue
        found[name] = _own(answer, name, solutions[name], example, sets) or _joint(answer, name, sets)
    return found


def _narrowed(answer: Answer, name: str, range_: Range) -> bool:
    if name in answer.sets:
        return not fills(answer.sets[name], range_)
    size = answer.determined[name]
    line = affine(size)
    if line is None or not line[0]:
        extents = {root: answer.sets[root].extent for root in free_symbols(size)}
        return BoundsCache(extents).of(size).range != range_
    run = answer.sets[line[1]]
    return not fills(moved(run, line[0], line[2], range_), range_)


def _own(
    answer: Answer, name: str, solution: Solution, example: Mapping[str, int], sets: Sets
) -> tuple[Condition, ...]:
    """The conditions on this symbol alone, where these explain what it keeps."""
    run = answer.sets.get(name)
    if run is None or not solution.proof.proven or solution.values.is_full:
        return ()
    anchor = example[name] if name in example and example[name] in run else None
    if not any(same_run(run, best) for best in best_runs(solution.values, anchor, (run.step,))):
        return ()
    range_ = answer.part.ranges[name]
    own = [condition for condition in answer.part.conditions if free_symbols(condition) == {name}]
    # The steps that were tried for the choice: fewer conditions may leave a longer run of another step.
    steps = {run.step, *steps_of(own, range_)}

    def explained(members: Sequence[Condition]) -> bool:
        values = sets.all(tuple(members), name, range_)[0].values
        return same_run(best_runs(values, anchor, steps)[0], run)

    # Mostly those explain it that refuse the values right beyond the run and between its first two.
    beside = _beside(run)
    members = [each for each in own if any(not satisfied([each], {name: value}) for value in beside)]
    if not explained(members):
        members = list(causes(own, name, range_, solution.values, sets))
    clock = sets.clock.part(REASONS_SHARE)
    for condition in sorted(members, key=lambda condition: -len(repr(condition))):
        rest = [other for other in members if other != condition]
        if not clock.out and explained(rest):
            members = rest
    return tuple(members)


def _beside(run: Progression) -> list[int]:
    low, high = run.extent.min, run.extent.max
    found = [] if low is None else [low - run.step, low + 1] if run.step > 1 else [low - 1]
    return [value for value in (*found, *([] if high is None else [high + run.step])) if value >= 0]


def _joint(answer: Answer, name: str, sets: Sets) -> tuple[Condition, ...]:
    """The equations that tie it to others, and what limits the parameters that it is made of."""
    assert answer.fit is not None
    layout = answer.fit.layout
    origins = set(layout.because.get(name, NOBODY))
    for parameter in free_symbols(layout.sizes[name]):
        own = [claim for claim in layout.claims if claim.names == {parameter}]
        origins |= _behind(own, parameter, layout.ranges[parameter], answer.fit.values[parameter], sets)
        for claim in answer.fit.violated:
            if parameter in claim.names:
                origins |= claim.origins
    return tuple(condition for condition in answer.part.conditions if condition in origins)


def _behind(claims: Iterable[Claim], name: str, range_: Range, wanted: ValueSet, sets: Sets) -> frozenset[Condition]:
    by = {claim.condition: claim.origins for claim in claims}
    needed = causes(by, name, range_, wanted, sets)
    return frozenset().union(*(by[condition] for condition in needed))


def alternatives_to(
    answer: Answer, solutions: Mapping[str, Solution], example: Mapping[str, int], sets: Sets
) -> dict[str, tuple[Progression, ...]]:
    """Symbol -> other runs that it could have while the others keep theirs, best first."""
    found: dict[str, tuple[Progression, ...]] = {}
    if answer.fit is None:
        return found
    for name, run in answer.sets.items():
        values = _allowed_here(answer.fit, name, answer.part.ranges.get(name))
        if values is None:
            continue
        values = values.intersect(solutions[name].values)
        layout = answer.fit.layout
        others = [claim for claim in layout.claims if name in claim.names and _beyond(claim, name, layout, sets)]
        if others and layout.sizes[name] != Sym(name):
            continue
        oracle = ConstraintChecker([claim.condition for claim in others], sets.clock)
        kept: list[Progression] = []
        runs = {*best_runs(values, example.get(name), (run.step,)), *best_runs(values, None)}
        for other in sorted(runs, key=rank):
            if len(kept) == MOST_ALTERNATIVES or same_run(other, run) or (other.kept == 1 and run.kept != 1):
                continue
            if not others or (not sets.clock.out and oracle.holds({**answer.fit.runs, name: other})):
                kept.append(other)
        found[name] = tuple(kept)
    return found


def _beyond(claim: Claim, name: str, layout: Layout, sets: Sets) -> bool:
    """Whether a claim is not in the set of values that are known to be allowed."""
    return len(claim.names) > 1 or not sets.one(claim.condition, name, layout.ranges[name]).proof.proven


def _allowed_here(fit: Fitted, name: str, range_: Range | None) -> ValueSet | None:
    """What the claims on this symbol's parameter allow, in its own values; ``None`` where it has no free one."""
    line = None if range_ is None else affine(fit.layout.sizes[name])
    if range_ is None or line is None or not 0 < line[0] <= MOST_FACTOR:
        return None
    return fit.values[line[1]].mapped(line[0], line[2], range_)
