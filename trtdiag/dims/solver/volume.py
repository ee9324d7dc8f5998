"""How much a choice keeps, as a key that sorts: the most first, then the simplest to say."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import prod

from trtdiag.symbolic import Progression

Volume = tuple[int, Fraction, Fraction]
PIN = Fraction(4, 3)
"""Own choice: a size that could vary is pinned only where that keeps more than a third more combinations."""


def volume(runs: Mapping[str, Progression], pinned: int = 0) -> Volume:
    """How many combinations ``runs`` keep: more infinite ones first, of these the densest, then the most.

    Args:
        runs: By parameter; each single value among them counts as a pin.
        pinned: How many sizes are pinned besides.
    """
    endless = [run for run in runs.values() if run.kept is None]
    price = PIN ** (pinned + sum(run.single is not None for run in runs.values()))
    kept = prod(run.kept for run in runs.values() if run.kept is not None)
    density = price * prod(run.step for run in endless) if endless else Fraction(0)
    return -len(endless), density, -kept / price


def words(runs: Mapping[str, Progression]) -> tuple[int, int, int]:
    """How hard ``runs`` are to say: single values, multiples, and how large the numbers are."""
    singles = sum(run.single is not None for run in runs.values())
    multiples = sum(run.step > 1 for run in runs.values())
    return singles, multiples, sum(run.step + run.offset for run in runs.values() if run.step > 1)
