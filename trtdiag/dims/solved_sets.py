"""The values that conditions on one symbol allow inside its declared range, each question answered once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from trtdiag.symbolic import Proof, Range, Solution, ValueSet, allowed
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.smt import worked_s

SOLVER_BUDGET_S = 8.0
"""Own choice: of z3's work in all, in seconds of an idle core, so that verdicts do not depend on the machine's load."""
QUESTION_LIMIT_S = 2.0
"""Own choice: an answer that takes longer is worth less than the wait; the guard is then named as undecided."""


class Solved:
    """Remembers the solution of every condition and intersects them for sets of conditions."""

    def __init__(self, box: Mapping[str, Range]) -> None:
        self.box = box
        self.one = cache(self._one)
        self._spent_at = worked_s() + SOLVER_BUDGET_S

    @property
    def limit_s(self) -> float:
        """What one question may cost z3 now: the stage has a budget, and a model can have hundreds of joint guards."""
        return min(QUESTION_LIMIT_S, max(0.05, self._spent_at - worked_s()))

    def _one(self, symbol: str, condition: Condition) -> Solution:
        """The values of ``symbol`` that satisfy ``condition``, its only free symbol being ``symbol``."""
        return allowed((condition,), symbol, self.box[symbol])

    def all(self, symbol: str, conditions: Iterable[Condition]) -> Solution | None:
        """The values that satisfy every condition; ``None`` where one of them could not be solved exactly."""
        values = ValueSet.full(self.box[symbol])
        proof: Proof | None = None
        for condition in conditions:
            solution = self.one(symbol, condition)
            if not solution.proof.proven:
                return None
            values = values.intersect(solution.values)
            if proof is None or solution.proof.checked > proof.checked:
                proof = solution.proof
        return None if proof is None else Solution(values, proof)
