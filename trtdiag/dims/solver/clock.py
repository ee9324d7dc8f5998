"""How much of the time that was allowed is left."""

from __future__ import annotations

from time import monotonic

LEAST_S = 0.02
QUESTION_S = 1.5
"""Own choice: one question to z3 that takes longer is rarely answered at all."""


class Clock:
    """Counts down from ``limit_s`` seconds on the monotonic clock."""

    def __init__(self, limit_s: float) -> None:
        self._deadline = monotonic() + limit_s

    @property
    def left_s(self) -> float:
        """Seconds left, zero when none are."""
        return max(0.0, self._deadline - monotonic())

    @property
    def out(self) -> bool:
        """Whether the time has run out."""
        return self.left_s <= 0.0

    @property
    def question_s(self) -> float:
        """What one question may cost now."""
        return max(LEAST_S, min(QUESTION_S, self.left_s / 4))

    def part(self, share: float) -> Clock:
        """A clock for a share of what is left."""
        return Clock(self.left_s * share)
