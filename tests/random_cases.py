"""How many random cases a test takes: all where everything runs, fewer where the quick tests run alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Row = TypeVar("Row")

LEAST = 12
PART = 8
_quick = False


def take_fewer() -> None:
    """From here on, in ``make test``: the tests ask while they are imported, so this comes before."""
    global _quick
    _quick = True


def all_is_run() -> bool:
    """Whether this is not the quick run, which leaves out checks of what it has checked in another way."""
    return not _quick


def cases(everywhere: int) -> int:
    """An eighth of them in the quick run, but no fewer than 12; ``make test-all`` takes all."""
    return min(everywhere, max(LEAST, everywhere // PART)) if _quick else everywhere


def some(rows: Sequence[Row], part: int = PART) -> list[Row]:
    """Each ``part``-th row in the quick run, the first among them; ``make test-all`` takes all.

    For long tables from the wild whose rows show one thing, in tests that take all rows at once.
    """
    return list(rows[::part] if _quick else rows)
