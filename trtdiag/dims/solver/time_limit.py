"""How much of the time that was allowed is left.

Time is what the thread computes, not what the wall clock says: an answer must not be worse because others share the
machine, or because several threads solve at once.
"""

from __future__ import annotations

from time import thread_time

LEAST_S = 0.02
QUESTION_S = 1.5
"""Own choice: one question to z3 that takes longer is rarely answered at all."""


class Clock:
    """Counts down from ``limit_s`` seconds of this thread's CPU time."""

    def __init__(self, limit_s: float) -> None:
        self._deadline = thread_time() + limit_s

    @property
    def left_s(self) -> float:
        """Seconds left, zero when none are."""
        return max(0.0, self._deadline - thread_time())

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
