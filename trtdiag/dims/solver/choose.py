"""From conditions to sizes that ``torch.export`` can say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, count

from trtdiag.dims.solver.connected_symbols import Answer, Part, parts_of, usable_point
from trtdiag.dims.solver.constraint_losses import decisive_first
from trtdiag.dims.solver.eliminate import layouts
from trtdiag.dims.solver.fitting import Fitted, fitted, groups
from trtdiag.dims.solver.layout import Layout, Origins, first_layout, followed
from trtdiag.dims.solver.naming import named
from trtdiag.dims.solver.proving import proved, weakest
from trtdiag.dims.solver.reasons import alternatives_to, narrowing
from trtdiag.dims.solver.simplify import reduced
from trtdiag.dims.solver.slices import sliced
from trtdiag.dims.solver.solving import Sets
from trtdiag.dims.solver.time_limit import Clock
from trtdiag.dims.solver.variants import on_lines, straightened
from trtdiag.symbolic import (
    ConflictResult,
    Progression,
    Proof,
    ProofKind,
    Range,
    Solution,
    Sym,
    children,
    evaluate,
    free_symbols,
)
from trtdiag.symbolic.conditions import TRUE, within
from trtdiag.symbolic.expr import Condition, Expr, FloorDiv

SIZES = Range(0, None)
SEARCH_SHARE = 0.6  # of the time; the rest is for proofs and reasons


def choose(
    conditions: Sequence[Condition],
    box: Mapping[str, Range],
    example: Mapping[str, int],
    *,
    determine: bool = True,
    limit_s: float = 8.0,
) -> Chosen:
    """The sizes to declare such that all conditions hold for every combination of them.

    The best choice keeps the example, then most of the asked combinations, then is the simplest to say.

    Args:
        conditions: Over any symbols; the example normally satisfies all.
        box: The asked range of each symbol, ends may be open; sizes below zero are never chosen.
        example: Values while tracing; a symbol may have none.
        determine: Whether a symbol may be any expression over others, which torch then has to derive by itself
            (``Dim.AUTO``).  Otherwise only ``a*root + b`` with ``a >= 1`` is used.
        limit_s: Seconds for everything.  What is not decided when they are over is left ``open``.
    """
    whole = Clock(limit_s)
    sets = Sets(Clock(SEARCH_SHARE * limit_s))
    given = tuple(dict.fromkeys(conditions))
    ranges = _ranges(given, box)
    origins: dict[Condition, Condition] = {}
    for condition, simple in zip(given, reduced(given, ranges, sets), strict=True):
        if simple != TRUE:
            origins.setdefault(simple, condition)
    chosen = _chosen(tuple(origins), ranges, example, determine, sets, Sets(whole))
    if chosen.conflict is not None:
        # A reduced condition rests on others: a smallest set is one of the conditions as they were given.
        return _chosen(given, ranges, example, determine, Sets(Clock(limit_s)), Sets(Clock(limit_s)))
    return replace(
        chosen,
        open=tuple(origins.get(condition, condition) for condition in chosen.open),
        narrowed_by={
            name: decisive_first(tuple(dict.fromkeys(origins.get(cause, cause) for cause in causes)), ranges)
            for name, causes in chosen.narrowed_by.items()
        },
    )


def _ranges(conditions: Sequence[Condition], box: Mapping[str, Range]) -> dict[str, Range]:
    unasked = sorted({name for condition in conditions for name in free_symbols(condition)} - box.keys())
    return {name: box.get(name, Range()).intersect(SIZES) for name in [*box, *unasked]}


def _chosen(
    every: Sequence[Condition],
    ranges: Mapping[str, Range],
    example: Mapping[str, int],
    determine: bool,
    sets: Sets,
    proving: Sets,
) -> Chosen:
    solutions = {
        name: sets.all([each for each in every if free_symbols(each) == {name}], name, range_)[0]
        for name, range_ in ranges.items()
    }
    for place, condition in enumerate(every):
        if not free_symbols(condition) and not evaluate(condition, {}):
            proof = Proof(ProofKind.EXHAUSTIVE, 1, "a condition is false for all values")
            return _impossible(ConflictResult((place,), proof), solutions)
    fresh = (name for index in count() if (name := f"_root{index}") not in ranges)
    answers = []
    for part in parts_of(every, ranges):
        answer = _answered(part, example, determine, fresh, sets)
        if answer.conflict is not None and answer.conflict.members is not None:
            members = tuple(sorted(every.index(part.conditions[index]) for index in answer.conflict.members))
            found = ConflictResult(members, answer.conflict.proof, None, answer.conflict.minimal)
            return _impossible(found, solutions)
        answers.append(answer)
    return _joined(answers, every, ranges, solutions, example, proving)


def _impossible(found: ConflictResult, solutions: Mapping[str, Solution]) -> Chosen:
    return Chosen({}, {}, solutions, {}, (), found.proof, found, {})


def _answered(part: Part, example: Mapping[str, int], determine: bool, fresh: Iterator[str], sets: Sets) -> Answer:
    point, kept, conflict = usable_point(part, example, sets.clock)
    if conflict is not None:
        return Answer(part, conflict=conflict)
    start = first_layout(part.conditions, part.ranges, point, kept)
    fit = searched(start, determine, sets)
    if fit is None or _pins(fit, part):
        other = sliced(start, sets)
        if other is not None and (fit is None or other.rank < fit.rank):
            fit = other
    if fit is None:
        whole = {name: Progression(1, 0, range_, range_.count, range_) for name, range_ in part.ranges.items()}
        return Answer(part, whole)
    return Answer(part, *named(fit, part.ranges, fresh), fit)


def _pins(fit: Fitted, part: Part) -> bool:
    """Whether a symbol that was asked to take several sizes is left with one."""
    return any(
        all(fit.runs[root].single is not None for root in free_symbols(size)) and part.ranges[name].single is None
        for name, size in fit.layout.sizes.items()
    )


def _joined(
    answers: Sequence[Answer],
    every: Sequence[Condition],
    ranges: Mapping[str, Range],
    solutions: Mapping[str, Solution],
    example: Mapping[str, int],
    sets: Sets,
) -> Chosen:
    chosen: dict[str, Progression] = {}
    determined: dict[str, Expr] = {}
    for answer in answers:
        chosen.update(answer.sets)
        determined.update(answer.determined)
    proofs: dict[Condition, Proof] = {each: proved(each, chosen, determined, sets.clock) for each in every}
    undecided = tuple(condition for condition in every if not proofs[condition].proven)
    for name in determined:
        for condition in within(Sym(name), ranges[name]):
            proofs.setdefault(condition, proved(condition, chosen, determined, sets.clock))
    alternatives = {}
    narrowed = {}
    for answer in answers:
        alternatives.update(alternatives_to(answer, solutions, example, sets))
        narrowed.update(narrowing(answer, solutions, example, sets))
    return Chosen(chosen, determined, solutions, alternatives, undecided, weakest(proofs.values()), None, narrowed)


@dataclass(frozen=True)
class Chosen:
    """Sizes for every symbol such that all conditions hold for every combination of the roots' values.

    Attributes:
        sets: Root symbol -> its values.  Fresh roots, where no symbol is the root of its group, are ``_root0``, ...
        determined: Symbol -> its size over the roots.
        allowed: Symbol -> the exact set that the conditions on it alone allow in its asked range.
        alternatives: Symbol -> other sayable sets in the same allowed set, best first.
        open: Conditions neither shown to hold nor mended over the chosen sizes.
        proof: That every condition but the ``open`` ones holds over the chosen sizes; its kind is NONE where one is
            open.
        conflict: Where no choice exists: a smallest set of conditions that contradict each other in the box.
            ``sets`` and ``determined`` are empty then.
        narrowed_by: Symbol -> the conditions because of which it keeps less than its asked range, those that take
            the most away first.
    """

    sets: Mapping[str, Progression]
    determined: Mapping[str, Expr]
    allowed: Mapping[str, Solution]
    alternatives: Mapping[str, tuple[Progression, ...]]
    open: tuple[Condition, ...]
    proof: Proof
    conflict: ConflictResult | None
    narrowed_by: Mapping[str, tuple[Condition, ...]]


# The best choice for symbols that conditions connect: every way to use up their equations is tried.


MOST_STRAIGHTENED = 32
MOST_LINED = 3  # pairs of parameters


def searched(start: Layout, determine: bool, sets: Sets) -> Fitted | None:
    """The best fit of all layouts that follow from ``start``; ``None`` where none is known.

    Args:
        start: Every symbol its own parameter.
        determine: Whether sizes may be any expression that torch works out.
        sets: Solves what is asked of one parameter; its clock ends the search.
    """
    best: Fitted | None = None
    for solved in layouts(start):
        for layout in [solved] if determine and not _quotients(solved) else _affine(solved):
            found = fitted(layout, sets, best)
            if found is not None and (best is None or found.rank < best.rank):
                best = found
            if best is not None and (sets.clock.out or (best.whole and best.layout.lossless)):
                return best
    if best is not None and best.violated:
        best = _on_lines(best, determine, sets)
    return best


def _affine(layout: Layout) -> Iterator[Layout]:
    return followed(layout, straightened, MOST_STRAIGHTENED)


def _quotients(layout: Layout) -> bool:
    """Whether a size is divided by another: torch works none out (``h*w == 24``; 2.13, ``_sympy.solve.try_solve``)."""
    return any(_by_a_size(size) for size in layout.sizes.values())


def _by_a_size(part: Expr | Condition) -> bool:
    divided = isinstance(part, FloorDiv) and bool(free_symbols(part.right))
    return divided or any(_by_a_size(child) for child in children(part))


def _on_lines(best: Fitted, determine: bool, sets: Sets) -> Fitted:
    """Lines through the example, where joint claims left only a narrow product."""
    layout = best.layout
    for names, claims in groups(layout.ranges, best.violated)[:MOST_LINED]:
        because: Origins = frozenset().union(*(claim.origins for claim in claims))
        for first, second in combinations(names, 2) if len(names) <= MOST_LINED else ():
            for line in on_lines(layout, (first, second), because):
                if sets.clock.out:
                    return best
                for made in [line] if determine and not _quotients(line) else _affine(line):
                    found = fitted(made, sets, best)
                    if found is not None and found.rank < best.rank:
                        best = found
                    if sets.clock.out:
                        return best
    return best
