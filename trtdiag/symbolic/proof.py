"""How a statement about all values of a range was established."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ProofKind(Enum):
    """The ways to establish a statement; the value is its name in JSON."""

    EXHAUSTIVE = "exhaustive"  # every value (or tuple of values) of the range was tried
    PERIODIC = "periodic"  # exact per residue class: one period and a prefix tried, the rest by algebra
    MONOTONE = "monotone"  # decided at the corners of a monotone expression
    SMT = "smt"  # z3 showed that no counterexample exists
    SAMPLED = "sampled"  # some values were tried; never called proven
    NONE = "none"  # nothing was established


@dataclass(frozen=True, slots=True)
class Proof:
    """The kind of proof, how many values it looked at, and one readable clause about it."""

    kind: ProofKind
    checked: int = 0
    detail: str = ""

    @property
    def proven(self) -> bool:
        """Whether the statement holds for certain."""
        return self.kind not in (ProofKind.SAMPLED, ProofKind.NONE)
