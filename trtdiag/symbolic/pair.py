"""What conditions on two symbols allow: how many pairs, which values of each, whether one fixes the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from trtdiag.symbolic import smt
from trtdiag.symbolic.allowed import allowed
from trtdiag.symbolic.build import add, mul
from trtdiag.symbolic.conditions import all_of, compare, conjuncts, substitute, within
from trtdiag.symbolic.expr import Condition, Relation, Sym
from trtdiag.symbolic.grid import MOST_TUPLES, Grid, tuple_count
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.tree import free_symbols
from trtdiag.symbolic.valueset import ValueSet

Box = Mapping[str, Range]


@dataclass(frozen=True, slots=True)
class Linear:
    """``target == factor*source + offset`` for all allowed pairs, with integers."""

    target: str
    source: str
    factor: int
    offset: int

    @property
    def condition(self) -> Condition:
        """The relation as a condition."""
        return compare(Relation.EQ, Sym(self.target), add(mul(self.factor, Sym(self.source)), self.offset))


@dataclass(frozen=True, slots=True)
class PairSolution:
    """The pairs that satisfy conditions on two symbols.

    Attributes:
        count: How many pairs; ``None`` when infinitely many or unknown.
        total: How many pairs the box has; ``None`` when infinitely many.
        equal: Whether the conditions force both to be equal; ``None`` when unknown.
        relation: A linear relation that they force, where there is one (equality included) and it is not the same
            as fixing both values.
        first: The values of the first symbol that occur in a pair; ``None`` when unknown.
        second: The same for the second.
        proof: Of everything that is not ``None``.
    """

    count: int | None
    total: int | None
    equal: bool | None
    relation: Linear | None
    first: ValueSet | None
    second: ValueSet | None
    proof: Proof


def allowed_pair(
    conditions: Sequence[Condition], a: str, b: str, box: Box, *, limit_s: float = smt.DEFAULT_LIMIT_S
) -> PairSolution:
    """The pairs of values of ``a`` and ``b`` in ``box`` for which all ``conditions`` hold.

    Args:
        conditions: None may have another symbol.
        a: The first symbol.
        b: The second symbol.
        box: The range of both; a symbol without one may have any value.
        limit_s: For each question to z3, in seconds, where it is needed.

    Raises:
        ValueError: A condition has another symbol.
    """
    condition = all_of(conditions)
    others = free_symbols(condition) - {a, b}
    if others:
        raise ValueError(f"conditions on {a} and {b} were expected, but they have {', '.join(sorted(others))}")
    here = {name: box.get(name, Range()) for name in (a, b)}
    total = tuple_count((a, b), here)
    joint = [part for part in conjuncts(condition) if free_symbols(part) == {a, b}]
    if not joint:
        return _apart(conjuncts(condition), a, b, here, total, limit_s)
    if total is not None and total <= MOST_TUPLES:
        try:
            return _tried(condition, a, b, here, total)
        except OverflowError:
            return _unknown(total, "a power is too large to be computed")
    return _reasoned(condition, a, b, here, total, limit_s)


def _unknown(total: int | None, why: str) -> PairSolution:
    return PairSolution(None, total, None, None, None, None, Proof(ProofKind.NONE, 0, why))


def _apart(parts: Sequence[Condition], a: str, b: str, box: Box, total: int | None, limit_s: float) -> PairSolution:
    """No condition has both symbols: each has its own set, and every combination is allowed."""
    sides = []
    for name in (a, b):
        own = [part for part in parts if free_symbols(part) <= {name}]
        sides.append(allowed(own, name, box[name], limit_s))
    first, second = sides[0].values, sides[1].values
    proof = next((side.proof for side in sides if not side.proof.proven), sides[0].proof)
    if not proof.proven:
        return _unknown(total, proof.detail)
    if first.is_empty or second.is_empty:
        empty = [ValueSet.nothing(box[name]) for name in (a, b)]
        return PairSolution(0, total, None, None, empty[0], empty[1], proof)
    counts = [first.count, second.count]
    count = None if None in counts else prod(each for each in counts if each is not None)
    equal = first.single is not None and first.single == second.single
    return PairSolution(count, total, equal, None, first, second, proof)


def _tried(condition: Condition, a: str, b: str, box: Box, total: int) -> PairSolution:
    grid = Grid.of((a, b), box)
    mask = grid.holds([condition])
    places = np.nonzero(mask)
    xs, ys = grid.axes[0][places[0]], grid.axes[1][places[1]]
    lows = box[a].min, box[b].min
    assert lows[0] is not None
    assert lows[1] is not None
    first = ValueSet.from_mask(lows[0], np.asarray(mask.any(axis=1)), box[a])
    second = ValueSet.from_mask(lows[1], np.asarray(mask.any(axis=0)), box[b])
    proof = Proof(ProofKind.EXHAUSTIVE, total, f"all {total} pairs tried")
    equal = bool((xs == ys).all()) if len(xs) else None
    return PairSolution(len(xs), total, equal, _line(a, b, xs.tolist(), ys.tolist()), first, second, proof)


def _line(a: str, b: str, xs: list[int], ys: list[int]) -> Linear | None:
    """An integer line through all points; of the two ways to write it the one without a fraction."""
    return _fit(a, b, xs, ys) or _fit(b, a, ys, xs)


def _fit(target: str, source: str, values: list[int], sources: list[int]) -> Linear | None:
    if len(set(sources)) < 2 or len(set(values)) < 2:
        return None
    other = next(index for index, value in enumerate(sources) if value != sources[0])
    rise, run = values[other] - values[0], sources[other] - sources[0]
    if rise % run:
        return None
    factor = rise // run
    offset = values[0] - factor * sources[0]
    if any(value != factor * source + offset for value, source in zip(values, sources, strict=True)):
        return None
    return Linear(target, source, factor, offset)


def _reasoned(condition: Condition, a: str, b: str, box: Box, total: int | None, limit_s: float) -> PairSolution:
    """Too many pairs to try: take a line through a few solutions, let z3 prove it, and solve along it."""
    points = _points(condition, a, b, box, limit_s)
    if points is None:
        nothing = [ValueSet.nothing(box[name]) for name in (a, b)]
        proof = Proof(ProofKind.SMT, 0, "z3 shows that no pair satisfies them")
        return PairSolution(0, total, None, None, nothing[0], nothing[1], proof)
    line = _line(a, b, [point[a] for point in points], [point[b] for point in points])
    if line is not None and smt.find([condition], box, limit_s, refuting=line.condition).status == "unsat":
        return _along(condition, line, a, b, box, total, limit_s)
    unequal = any(point[a] != point[b] for point in points)
    detail = f"z3 found {len(points)} pairs; how many there are is not known"
    kind = ProofKind.SMT if unequal else ProofKind.NONE
    return replace(_unknown(total, detail), equal=False if unequal else None, proof=Proof(kind, len(points), detail))


def _points(condition: Condition, a: str, b: str, box: Box, limit_s: float) -> list[Mapping[str, int]] | None:
    """A few pairs that satisfy ``condition``, with different values of both; ``None`` where there is none at all."""
    found: list[Mapping[str, int]] = []
    extra: list[Condition] = []
    for _ in range(4):
        answer = smt.find([condition, *extra], box, limit_s)
        if answer.status == "unsat" and not found:
            return None
        if answer.model is None:
            break
        found.append(answer.model)
        extra += [compare(Relation.NE, Sym(name), answer.model[name]) for name in (a, b)]
    return found


def _along(
    condition: Condition, line: Linear, a: str, b: str, box: Box, total: int | None, limit_s: float
) -> PairSolution:
    on_line = add(mul(line.factor, Sym(line.source)), line.offset)
    inside = [substitute(condition, {line.target: on_line}), *within(on_line, box[line.target])]
    solution = allowed(inside, line.source, box[line.source], limit_s)
    equal = line.factor == 1 and line.offset == 0
    proof = Proof(ProofKind.SMT, solution.proof.checked, f"z3 shows the relation; {solution.proof.detail}")
    if not solution.proof.proven:
        return PairSolution(None, total, equal, line, None, None, proof)
    values = {
        line.source: solution.values,
        line.target: solution.values.mapped(line.factor, line.offset, box[line.target]),
    }
    return PairSolution(solution.values.count, total, equal, line, values[a], values[b], proof)
