"""From conditions to sizes that ``torch.export`` can say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from trtdiag.fixdims.chosen import Chosen
from trtdiag.fixdims.clock import Clock
from trtdiag.fixdims.eliminate import layouts
from trtdiag.fixdims.fitting import Fitted, fitted, groups
from trtdiag.fixdims.layout import Claim, first_layout, within
from trtdiag.fixdims.naming import Named, named
from trtdiag.fixdims.proving import proved, weakest
from trtdiag.fixdims.runs import best_runs
from trtdiag.symbolic import (
    ConflictResult,
    Progression,
    Proof,
    ProofKind,
    Range,
    Solution,
    Sym,
    allowed,
    conflict,
    evaluate,
    free_symbols,
)
from trtdiag.symbolic.expr import Condition, Expr

MOST_ALTERNATIVES = 5
SIZES = Range(0, None)


@dataclass(frozen=True)
class _Part:
    """Symbols that conditions connect, and these conditions."""

    names: tuple[str, ...]
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class _Answer:
    """What was found for one part."""

    part: _Part
    fit: Fitted | None
    named: Named
    conflict: ConflictResult | None = None


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
    clock = Clock(limit_s)
    every = tuple(dict.fromkeys(conditions))
    names = {*box, *(name for condition in every for name in free_symbols(condition))}
    ranges = {name: box.get(name, Range()).intersect(SIZES) for name in [*box, *sorted(names - box.keys())]}
    fresh = _fresh_names(ranges)
    answers = []
    for part in _parts(every, ranges):
        answer = _solved(part, ranges, example, determine, fresh, clock)
        if answer.conflict is not None:
            return _contradiction(answer, every, ranges)
        answers.append(answer)
    return _joined(answers, every, ranges, example, clock)


def _fresh_names(taken: Mapping[str, Range]) -> Iterator[str]:
    return (name for index in count() if (name := f"_root{index}") not in taken)


def _parts(conditions: Sequence[Condition], ranges: Mapping[str, Range]) -> list[_Part]:
    claims = [Claim(condition, frozenset()) for condition in conditions if free_symbols(condition)]
    return [_Part(names, tuple(claim.condition for claim in inside)) for names, inside in groups(ranges, claims)]


def _solved(
    part: _Part,
    ranges: Mapping[str, Range],
    example: Mapping[str, int],
    determine: bool,
    fresh: Iterator[str],
    clock: Clock,
) -> _Answer:
    here = {name: ranges[name] for name in part.names}
    point = {name: example[name] for name in part.names if name in example}
    kept = frozenset(point)
    if len(point) < len(here) or not _satisfied(part, here, point):
        kept = frozenset()
        found = conflict(part.conditions, here, limit_s=clock.question_s)
        if found.members is not None:
            return _Answer(part, None, Named({}, {}), found)
        point = {name: found.witness[name] for name in here if found.witness and name in found.witness}
    best: Fitted | None = None
    for layout in layouts(first_layout(part.conditions, here, point)):
        fit = fitted(layout, kept, clock)
        if fit is not None and (best is None or fit.rank < best.rank):
            best = fit
        if clock.out:
            break
    if best is None:
        sets = {name: best_runs_of(range_, point.get(name)) for name, range_ in here.items()}
        return _Answer(part, None, Named(sets, {}))
    return _Answer(part, best, named(best, here, fresh))


def best_runs_of(range_: Range, value: int | None) -> Progression:
    """All of ``range_``."""
    return Progression(1, 0, range_, range_.count, range_)


def _satisfied(part: _Part, ranges: Mapping[str, Range], point: Mapping[str, int]) -> bool:
    inside = all(value in ranges[name] for name, value in point.items())
    return inside and all(evaluate(condition, point) for condition in part.conditions)


def _contradiction(answer: _Answer, every: Sequence[Condition], ranges: Mapping[str, Range]) -> Chosen:
    found = answer.conflict
    assert found is not None
    assert found.members is not None
    places = tuple(sorted(every.index(answer.part.conditions[index]) for index in found.members))
    result = ConflictResult(places, found.proof, None, found.minimal)
    return Chosen({}, {}, _allowed(every, ranges), {}, (), found.proof, result, {})


def _allowed(every: Sequence[Condition], ranges: Mapping[str, Range]) -> dict[str, Solution]:
    found = {}
    for name, range_ in ranges.items():
        own = [condition for condition in every if free_symbols(condition) == {name}]
        found[name] = allowed(own, name, range_)
    return found


def _joined(
    answers: Sequence[_Answer],
    every: Sequence[Condition],
    ranges: Mapping[str, Range],
    example: Mapping[str, int],
    clock: Clock,
) -> Chosen:
    sets: dict[str, Progression] = {}
    determined: dict[str, Expr] = {}
    for answer in answers:
        sets.update(answer.named.sets)
        determined.update(answer.named.determined)
    proofs: dict[Condition, Proof] = {condition: proved(condition, sets, determined, clock) for condition in every}
    for name in determined:
        for condition in within(Sym(name), ranges[name]):
            proofs[condition] = proved(condition, sets, determined, clock)
    undecided = tuple(condition for condition in every if not proofs[condition].proven)
    solutions = _allowed(every, ranges)
    alternatives = {}
    for name in sets:
        if name in solutions:
            runs = best_runs(solutions[name].values, example.get(name)) + best_runs(solutions[name].values, None)
            others = [run for run in dict.fromkeys(runs) if run != sets[name]]
            alternatives[name] = tuple(others[:MOST_ALTERNATIVES])
    proof = weakest(proofs.values())
    if undecided and proof.proven:
        proof = Proof(ProofKind.NONE, proof.checked, "a condition is open")
    return Chosen(sets, determined, solutions, alternatives, undecided, proof, None, {})
