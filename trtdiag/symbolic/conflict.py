"""Smallest sets of conditions that no values of a box satisfy together, and what follows from what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trtdiag.symbolic import smt
from trtdiag.symbolic.allowed import allowed
from trtdiag.symbolic.check import CheckResult, check
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.grid import MOST_TUPLES, Grid, tuple_count
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.symbolic.ranges import Range

Box = Mapping[str, Range]
MOST_MASK_BYTES = 1 << 29


@dataclass(frozen=True, slots=True)
class ConflictResult:
    """Whether conditions contradict each other.

    Attributes:
        members: Indexes of conditions that nothing in the box satisfies together, while without any one of them
            something does; empty where the box itself is empty; ``None`` where all can be satisfied or it is unknown.
        proof: That ``members`` cannot be satisfied, or that ``witness`` was looked for and found.
        witness: Values that satisfy all conditions, where there are any.
        minimal: Whether each member was shown to be needed.
    """

    members: tuple[int, ...] | None
    proof: Proof
    witness: Mapping[str, int] | None = None
    minimal: bool = True

    @property
    def satisfiable(self) -> bool | None:
        """Whether all conditions can hold at once; ``None`` when unknown."""
        if self.members is not None:
            return False
        return True if self.witness is not None else None


@dataclass(frozen=True, slots=True)
class _Answer:
    satisfiable: bool | None
    witness: Mapping[str, int] | None
    proof: Proof


def conflict(conditions: Sequence[Condition], box: Box, *, limit_s: float = smt.DEFAULT_LIMIT_S) -> ConflictResult:
    """A minimal set of contradicting conditions.

    Later conditions are tried for removal first, so of several such sets one with early conditions is given.

    Args:
        conditions: Over any symbols.
        box: The range of each symbol; a symbol without one may have any value.
        limit_s: For each question to z3, in seconds, where it is needed.
    """
    names = smt.symbols_of(conditions)
    here = {name: box.get(name, Range()) for name in names}
    if any(range_.empty for range_ in here.values()):
        return ConflictResult((), Proof(ProofKind.EXHAUSTIVE, 0, "the range of a symbol is empty"))
    oracle = _oracle(conditions, names, here, limit_s)
    everything = tuple(range(len(conditions)))
    answer = oracle.ask(everything)
    if answer.satisfiable is not False:
        return ConflictResult(None, answer.proof, answer.witness)
    members = list(everything)
    proof, minimal = answer.proof, True
    for index in reversed(everything):
        rest = tuple(member for member in members if member != index)
        answer = oracle.ask(rest)
        if answer.satisfiable is False:
            members, proof = list(rest), answer.proof
        elif answer.satisfiable is None:
            minimal = False
    return ConflictResult(tuple(members), proof, None, minimal)


def implied(
    condition: Condition, others: Sequence[Condition], box: Box, *, limit_s: float = smt.DEFAULT_LIMIT_S
) -> CheckResult:
    """Whether ``condition`` holds wherever all ``others`` do; ``holds`` means that it follows from them."""
    return check(condition, box, given=others, limit_s=limit_s)


class _SetOracle:
    """One symbol: sets of allowed values, solved once and intersected."""

    def __init__(self, conditions: Sequence[Condition], name: str, range_: Range, limit_s: float) -> None:
        self.name = name
        self.range = range_
        self.solutions = [allowed([condition], name, range_, limit_s) for condition in conditions]
        self.exact = all(solution.proof.proven for solution in self.solutions)

    def ask(self, members: tuple[int, ...]) -> _Answer:
        if not members:
            return _Answer(True, {}, Proof(ProofKind.EXHAUSTIVE, 0, "no condition"))
        values = self.solutions[members[0]].values
        for member in members[1:]:
            values = values.intersect(self.solutions[member].values)
        proof = max((self.solutions[member].proof for member in members), key=lambda proof: proof.checked)
        value = values.at_least(0) if values.min is None else values.min
        return _Answer(not values.is_empty, None if value is None else {self.name: value}, proof)


class _GridOracle:
    """Few tuples: where each condition holds is computed once, subsets are intersections of masks."""

    def __init__(self, conditions: Sequence[Condition], names: Sequence[str], box: Box) -> None:
        self.grid = Grid.of(names, box)
        self.masks = [np.packbits(self.grid.holds([condition])) for condition in conditions]

    def ask(self, members: tuple[int, ...]) -> _Answer:
        count = int(np.prod(self.grid.shape))
        proof = Proof(ProofKind.EXHAUSTIVE, count, f"all {count} tuples of {', '.join(self.grid.names)} tried")
        mask = np.packbits(np.ones(count, dtype=bool))
        for member in members:
            mask = mask & self.masks[member]
        if not mask.any():
            return _Answer(False, None, proof)
        flags = np.unpackbits(mask, count=count).astype(bool).reshape(self.grid.shape)
        return _Answer(True, self.grid.smallest(flags), proof)


class _SmtOracle:
    """Everything else: z3."""

    def __init__(self, conditions: Sequence[Condition], box: Box, limit_s: float) -> None:
        self.conditions = conditions
        self.box = box
        self.limit_s = limit_s

    def ask(self, members: tuple[int, ...]) -> _Answer:
        chosen = [self.conditions[member] for member in members]
        here = {name: self.box[name] for name in smt.symbols_of(chosen)}
        answer = smt.find(chosen, here, self.limit_s)
        if answer.status == "unsat":
            return _Answer(False, None, Proof(ProofKind.SMT, 0, "z3 shows that no values satisfy them"))
        if answer.status == "sat":
            return _Answer(True, answer.model, Proof(ProofKind.SMT, 0, "z3 found values that satisfy them"))
        return _Answer(None, None, Proof(ProofKind.NONE, 0, answer.why))


def _oracle(
    conditions: Sequence[Condition], names: Sequence[str], box: Box, limit_s: float
) -> _SetOracle | _GridOracle | _SmtOracle:
    if len(names) == 1:
        sets = _SetOracle(conditions, names[0], box[names[0]], limit_s)
        if sets.exact:
            return sets
    count = tuple_count(names, box)
    if names and count is not None and count <= MOST_TUPLES and count * len(conditions) // 8 <= MOST_MASK_BYTES:
        try:
            return _GridOracle(conditions, names, box)
        except OverflowError:
            return _SmtOracle(conditions, box, limit_s)
    return _SmtOracle(conditions, box, limit_s)
