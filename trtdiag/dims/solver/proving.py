"""Whether every condition holds over the chosen sizes: the last word, whatever led to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trtdiag.dims.solver.runs import over
from trtdiag.dims.solver.time_limit import Clock
from trtdiag.symbolic import (
    Progression,
    Proof,
    ProofKind,
    check,
    free_symbols,
    substitute,
)
from trtdiag.symbolic.check import shown_by_bounds
from trtdiag.symbolic.expr import Condition, Expr, Truth
from trtdiag.symbolic.grid import tuple_count

FEW_TUPLES = 1 << 16  # tried even when the time is over


def proved(
    condition: Condition, sets: Mapping[str, Progression], determined: Mapping[str, Expr], clock: Clock
) -> Proof:
    """The proof that ``condition`` holds for every combination of the roots' values; not proven where it is open."""
    rooted = substitute(condition, {name: determined[name] for name in free_symbols(condition) & determined.keys()})
    here = {name: sets[name] for name in free_symbols(rooted)}
    moved, box = over(rooted, here)
    if isinstance(moved, Truth):
        # Over the steps of a progression ``8*d % 8 == 0`` is true as it stands.
        detail = "it has one value over all chosen sizes"
        return Proof(ProofKind.PERIODIC if moved.value else ProofKind.NONE, 1, detail)
    count = tuple_count(sorted(box), box)
    if clock.out and len(box) > 1 and (count is None or count > FEW_TUPLES):
        if shown_by_bounds(moved, box):
            return Proof(ProofKind.MONOTONE, 0, "the bounds of both sides show it")
        return Proof(ProofKind.NONE, 0, "the time was over")
    answer = check(moved, box, limit_s=clock.question_s)
    if answer.verdict == "holds":
        return answer.proof
    why = "it breaks at a chosen size" if answer.verdict == "breaks" else answer.proof.detail
    return Proof(ProofKind.NONE, answer.proof.checked, why)


STRENGTH = (
    ProofKind.NONE,
    ProofKind.SAMPLED,
    ProofKind.SMT,
    ProofKind.MONOTONE,
    ProofKind.PERIODIC,
    ProofKind.EXHAUSTIVE,
)


def weakest(proofs: Iterable[Proof]) -> Proof:
    """One proof for all statements: the weakest kind, and how many values all of them looked at together."""
    every = list(proofs)
    if not every:
        return Proof(ProofKind.EXHAUSTIVE, 0, "there is no condition")
    least = min(every, key=lambda proof: STRENGTH.index(proof.kind))
    return Proof(least.kind, sum(proof.checked for proof in every), least.detail)
