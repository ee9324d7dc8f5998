"""How many random cases a test takes: all where everything runs, fewer where the quick tests run alone."""

from __future__ import annotations

LEAST = 20
PART = 5
_quick = False


def take_fewer() -> None:
    """From here on, in ``make test``: the tests ask while they are imported, so this comes before."""
    global _quick
    _quick = True


def cases(everywhere: int) -> int:
    """A fifth of them in the quick run, but no fewer than 20; ``make test-all`` takes all."""
    return min(everywhere, max(LEAST, everywhere // PART)) if _quick else everywhere
