"""Symbols that conditions connect are chosen together, each such part on its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trtdiag.dims.solver.fitting import Fitted, groups
from trtdiag.dims.solver.layout import NOBODY, Claim
from trtdiag.dims.solver.time_limit import Clock
from trtdiag.symbolic import (
    ConflictResult,
    Progression,
    Proof,
    ProofKind,
    Range,
    conflict,
    free_symbols,
    holds,
)
from trtdiag.symbolic.conditions import compare
from trtdiag.symbolic.expr import Condition, Expr, Relation, Sym

LEAST_QUESTION_S = 0.02


@dataclass(frozen=True)
class Part:
    """Symbols with their asked ranges, and all conditions on them."""

    ranges: Mapping[str, Range]
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Answer:
    """What was found for one part; ``fit`` is missing where nothing could be shown to be allowed."""

    part: Part
    sets: Mapping[str, Progression] = field(default_factory=dict)
    determined: Mapping[str, Expr] = field(default_factory=dict)
    fit: Fitted | None = None
    conflict: ConflictResult | None = None


def parts_of(conditions: Sequence[Condition], ranges: Mapping[str, Range]) -> list[Part]:
    """The symbols of ``ranges`` in parts that share no condition."""
    claims = [Claim(condition, NOBODY) for condition in conditions if free_symbols(condition)]
    return [
        Part({name: ranges[name] for name in names}, tuple(claim.condition for claim in inside))
        for names, inside in groups(ranges, claims)
    ]


def usable_point(
    part: Part, example: Mapping[str, int], clock: Clock
) -> tuple[Mapping[str, int], frozenset[str], ConflictResult | None]:
    """A point that satisfies the part, the names whose value there is the example's, or why there is none.

    The example itself where it can be; its values with others for symbols that have none; any point else.
    """
    if any(range_.empty for range_ in part.ranges.values()):
        proof = Proof(ProofKind.EXHAUSTIVE, 0, "the range of a symbol is empty")
        return {}, frozenset(), ConflictResult((), proof)
    known = {name: example[name] for name in part.ranges if name in example}
    inside = all(value in part.ranges[name] for name, value in known.items())
    if inside and len(known) == len(part.ranges):
        if satisfied(part.conditions, known):
            return known, frozenset(known), None
    elif inside and known:
        fixed = [compare(Relation.EQ, Sym(name), value) for name, value in known.items()]
        found = _contradiction((*part.conditions, *fixed), part, clock)
        if found.witness is not None:
            return _whole(found.witness, part), frozenset(known), None
    found = _contradiction(part.conditions, part, clock)
    if found.members is not None:
        return {}, frozenset(), found
    return {} if found.witness is None else _whole(found.witness, part), frozenset(), None


def _whole(witness: Mapping[str, int], part: Part) -> dict[str, int]:
    return {name: witness.get(name, range_.min or 0) for name, range_ in part.ranges.items()}


def satisfied(conditions: Iterable[Condition], point: Mapping[str, int]) -> bool:
    """Whether all conditions hold at a point; values too large to be computed satisfy none."""
    try:
        return all(holds(condition, point) for condition in conditions)
    except OverflowError:
        return False


def _contradiction(conditions: Sequence[Condition], part: Part, clock: Clock) -> ConflictResult:
    # One question for each condition may follow the first: all of them share what is left.
    limit_s = max(LEAST_QUESTION_S, min(clock.question_s, clock.left_s / (len(conditions) + 2)))
    return conflict(conditions, part.ranges, limit_s=limit_s)
