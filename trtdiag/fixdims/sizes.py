"""How much a choice keeps, as a key that sorts: the most first, then the simplest to say."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from trtdiag.symbolic import Progression

Volume = tuple[int, int, int]


def volume(runs: Mapping[str, Progression]) -> Volume:
    """How many combinations ``runs`` keep: more infinite ones first, of these the densest, then the most."""
    endless = [run for run in runs.values() if run.kept is None]
    density = prod(run.step for run in endless)
    return -len(endless), density, -prod(run.kept for run in runs.values() if run.kept is not None)


def words(runs: Mapping[str, Progression]) -> tuple[int, int, int]:
    """How hard ``runs`` are to say: single values, multiples, and how large the numbers are."""
    singles = sum(run.single is not None for run in runs.values())
    multiples = sum(run.step > 1 for run in runs.values())
    return singles, multiples, sum(run.step + run.offset for run in runs.values() if run.step > 1)
