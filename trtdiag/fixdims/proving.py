"""Whether every condition holds over the chosen sizes: the last word, whatever led to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trtdiag.fixdims.clock import Clock
from trtdiag.fixdims.runs import over
from trtdiag.symbolic import Progression, Proof, ProofKind, check, free_symbols, substitute
from trtdiag.symbolic.expr import Condition, Expr, Truth


def proved(
    condition: Condition, sets: Mapping[str, Progression], determined: Mapping[str, Expr], clock: Clock
) -> Proof:
    """The proof that ``condition`` holds for every combination of the roots' values; not proven where it is open."""
    rooted = substitute(condition, {name: determined[name] for name in free_symbols(condition) & determined.keys()})
    here = {name: sets[name] for name in free_symbols(rooted)}
    moved, box = over(rooted, here)
    if isinstance(moved, Truth):
        detail = "it has one value over all chosen sizes"
        return Proof(ProofKind.EXHAUSTIVE if moved.value else ProofKind.NONE, 1, detail)
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
