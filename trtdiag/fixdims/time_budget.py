"""The time that all solving and checking may take together, exports of a live model left out."""

from __future__ import annotations

from time import thread_time

DEFAULT_SOLVE_S = 60.0
LEAST_S = 0.05  # of a question that is asked when the time is over: what is known without search is still found


class Allowance:
    """Counts the seconds that this thread computes, and those that are added or given back.

    What others do on the machine meanwhile does not count (``dims.solver.clock``).

    Args:
        limit_s: Seconds for everything; ``None`` for no limit.
        exports: Whether exports count: a saved program has its answer without one, a live model has not.
    """

    def __init__(self, limit_s: float | None, *, exports: bool = False) -> None:
        self.limit_s = limit_s
        self.exports = exports
        self.reached = False
        self._end = None if limit_s is None else thread_time() + limit_s

    def look(self) -> bool:
        """Whether the time is over; ``reached`` tells later that something was cut short because it was."""
        if self._end is not None and thread_time() >= self._end:
            self.reached = True
        return self.reached

    def least(self, other_s: float) -> float:
        """What something may take that has a limit of its own; hardly anything when the time is over."""
        if self._end is None:
            return other_s
        return max(LEAST_S, min(other_s, self._end - thread_time()))

    def add(self, seconds: float) -> None:
        """Count seconds that another process computed; below zero, leave out such as were spent on something else."""
        if self._end is not None:
            self._end -= seconds

    @property
    def words(self) -> str:
        """What to say when it was over."""
        return f"the limit of {self.limit_s:g} s on solving was reached (--solve-limit, solve_limit_s=)"


UNLIMITED = Allowance(None)
