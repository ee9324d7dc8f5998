"""Sets of allowed values of one parameter, each solved once and within the time that is left."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import accumulate

from trtdiag.dims.solver.time_limit import Clock
from trtdiag.symbolic import Proof, ProofKind, Range, Solution, ValueSet, allowed, periodic
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.patterns import PatternError
from trtdiag.symbolic.polynomials import NotApplicableError

FEW_VALUES = 1 << 12  # tried even when the time is over
LIMITS_S = (1.0, 0.25, 0.05)
CAUSES_SHARE = 0.1  # of the time that is left; what is not found needless by then is named as a cause


class Sets:
    """Remembers what every condition allows."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.one = cache(self._one)
        self._together = cache(self._intersect)

    def all(self, conditions: Iterable[Condition], name: str, range_: Range) -> tuple[Solution, list[Condition]]:
        """The values for which all hold, and the conditions that could not be solved (the values ignore them)."""
        return self._together(tuple(conditions), name, range_)

    def _intersect(
        self, conditions: tuple[Condition, ...], name: str, range_: Range
    ) -> tuple[Solution, list[Condition]]:
        solved = {condition: self.one(condition, name, range_) for condition in conditions}
        unsure = [condition for condition, solution in solved.items() if not solution.proof.proven]
        sure = [solution for solution in solved.values() if solution.proof.proven]
        try:
            values = _intersection([solution.values for solution in sure], range_)
        except PatternError:  # together too irregular: nothing is taken from them, and all are checked later
            values, unsure = ValueSet.full(range_), list(conditions)
        if unsure:
            detail = f"not solved: {len(unsure)} of {len(conditions)} conditions"
            return Solution(values, Proof(ProofKind.NONE, 0, detail)), unsure
        none = Proof(ProofKind.EXHAUSTIVE, 0, "there is no condition")
        proofs = (solution.proof for solution in sure)
        return Solution(values, max(proofs, key=lambda proof: proof.checked, default=none)), unsure

    def _one(self, condition: Condition, name: str, range_: Range) -> Solution:
        """The values of ``name`` in ``range_`` for which ``condition`` holds."""
        count = range_.count
        if self.clock.out and (count is None or count > FEW_VALUES):
            return _by_residues(condition, range_)
        limit_s = next((limit for limit in LIMITS_S if 4 * limit <= self.clock.left_s), LIMITS_S[-1])
        try:
            return allowed((condition,), name, range_, limit_s)
        except (PatternError, OverflowError, MemoryError) as error:
            return Solution(ValueSet.full(range_), Proof(ProofKind.NONE, 0, str(error)))


def _intersection(sets: list[ValueSet], range_: Range) -> ValueSet:
    """Neighbours first, then the results: sets of many parts meet as late as possible."""
    if not sets:
        return ValueSet.full(range_)
    while len(sets) > 1:
        paired = [first.intersect(second) for first, second in zip(sets[::2], sets[1::2], strict=False)]
        sets = paired + sets[2 * len(paired) :]
    return sets[0]


def _by_residues(condition: Condition, range_: Range) -> Solution:
    """By algebra alone, which takes little time or says that it does not apply."""
    try:
        return Solution(periodic.solve(condition, range_), Proof(ProofKind.PERIODIC, 0, "exact by residue classes"))
    except NotApplicableError as error:
        return Solution(ValueSet.full(range_), Proof(ProofKind.NONE, 0, f"the time was over, and {error}"))


def causes(
    conditions: Iterable[Condition], name: str, range_: Range, wanted: ValueSet, sets: Sets
) -> tuple[Condition, ...]:
    """The fewest of ``conditions`` (each one needed) that leave only the ``wanted`` values; shorter ones stay."""
    members = [condition for condition in conditions if not sets.one(condition, name, range_).values.is_full]
    members.sort(key=lambda condition: -len(repr(condition)))
    solutions = [sets.one(condition, name, range_).values for condition in members]
    clock = sets.clock.part(CAUSES_SHARE)
    # later[i]: what all members from i on allow.
    later = [*accumulate(reversed(solutions), ValueSet.intersect, initial=ValueSet.full(range_))][::-1]
    kept: list[Condition] = []
    reached = ValueSet.full(range_)
    for index, condition in enumerate(members):
        if clock.out or not reached.intersect(later[index + 1]).same_members(wanted):
            kept.append(condition)
            reached = reached.intersect(solutions[index])
    return tuple(condition for condition in members if condition in kept)
