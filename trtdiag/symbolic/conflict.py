"""Smallest sets of conditions that no values of a box satisfy together, and what follows from what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce

import numpy as np

from trtdiag.symbolic import smt
from trtdiag.symbolic.allowed import Solution, allowed
from trtdiag.symbolic.bounds import Box
from trtdiag.symbolic.check import CheckResult, check
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.grid import MOST_TUPLES, Grid, tuple_count
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.tree import symbols_of
from trtdiag.symbolic.valueset import ValueSet

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


_Answer = tuple[bool | None, Mapping[str, int] | None, Proof]
"""Whether conditions can hold at once, values at which they do, and how that is known."""
_Ask = Callable[[tuple[int, ...]], _Answer]


def conflict(conditions: Sequence[Condition], box: Box, *, limit_s: float = smt.DEFAULT_LIMIT_S) -> ConflictResult:
    """A minimal set of contradicting conditions.

    Later conditions are tried for removal first, so of several such sets one with early conditions is given.

    Args:
        conditions: Over any symbols.
        box: The range of each symbol; a symbol without one may have any value.
        limit_s: For each question to z3, in seconds, where it is needed.
    """
    names = symbols_of(conditions)
    here = {name: box.get(name, Range()) for name in names}
    if any(range_.empty for range_ in here.values()):
        return ConflictResult((), Proof(ProofKind.EXHAUSTIVE, 0, "the range of a symbol is empty"))
    ask = _way(conditions, names, here, limit_s)
    everything = tuple(range(len(conditions)))
    satisfiable, witness, proof = ask(everything)
    if satisfiable is not False:
        return ConflictResult(None, proof, witness)
    members, minimal = everything, True
    for index in reversed(everything):
        rest = tuple(member for member in members if member != index)
        satisfiable, _, found = ask(rest)
        if satisfiable is False:
            members, proof = rest, found
        elif satisfiable is None:
            minimal = False
    return ConflictResult(members, proof, None, minimal)


def implied(
    condition: Condition, others: Sequence[Condition], box: Box, *, limit_s: float = smt.DEFAULT_LIMIT_S
) -> CheckResult:
    """Whether ``condition`` holds wherever all ``others`` do; ``holds`` means that it follows from them."""
    return check(condition, box, given=others, limit_s=limit_s)


def _by_sets(solutions: Sequence[Solution], name: str) -> _Ask:
    """One symbol: the exact set of each condition is computed once, subsets are intersections."""

    def ask(members: tuple[int, ...]) -> _Answer:
        if not members:
            return True, {}, Proof(ProofKind.EXHAUSTIVE, 0, "no condition")
        values = reduce(ValueSet.intersect, (solutions[member].values for member in members))
        proof = max((solutions[member].proof for member in members), key=lambda proof: proof.checked)
        value = values.at_least(0) if values.min is None else values.min
        return not values.is_empty, None if value is None else {name: value}, proof

    return ask


def _by_grid(conditions: Sequence[Condition], names: Sequence[str], box: Box) -> _Ask:
    """Few tuples: where each condition holds is computed once, subsets are intersections of masks."""
    grid = Grid.of(names, box)
    masks = [np.packbits(grid.holds([condition])) for condition in conditions]
    count = int(np.prod(grid.shape))
    proof = Proof(ProofKind.EXHAUSTIVE, count, f"all {count:,} tuples of {', '.join(grid.names)} tried")

    def ask(members: tuple[int, ...]) -> _Answer:
        mask = reduce(np.bitwise_and, (masks[member] for member in members), np.packbits(np.ones(count, dtype=bool)))
        if not mask.any():
            return False, None, proof
        flags = np.unpackbits(mask, count=count).astype(bool).reshape(grid.shape)
        return True, grid.smallest(flags), proof

    return ask


def _by_smt(conditions: Sequence[Condition], box: Box, limit_s: float) -> _Ask:
    """Everything else: z3."""

    def ask(members: tuple[int, ...]) -> _Answer:
        chosen = [conditions[member] for member in members]
        answer = smt.find(chosen, {name: box[name] for name in symbols_of(chosen)}, limit_s)
        if answer.status == "unsat":
            return False, None, Proof(ProofKind.SMT, 0, "z3 shows that no values satisfy them")
        if answer.status == "sat":
            return True, answer.model, Proof(ProofKind.SMT, 0, "z3 found values that satisfy them")
        return None, None, Proof(ProofKind.NONE, 0, answer.why)

    return ask


def _way(conditions: Sequence[Condition], names: Sequence[str], box: Box, limit_s: float) -> _Ask:
    if len(names) == 1:
        solutions = [allowed([condition], names[0], box[names[0]], limit_s) for condition in conditions]
        if all(solution.proof.proven for solution in solutions):
            return _by_sets(solutions, names[0])
    count = tuple_count(names, box)
    if names and count is not None and count <= MOST_TUPLES and count * len(conditions) // 8 <= MOST_MASK_BYTES:
        with suppress(OverflowError):
            return _by_grid(conditions, names, box)
    return _by_smt(conditions, box, limit_s)
