"""How long each step takes, told to the logger ``trtdiag.steps``: stages, exports, builds, comparisons.

A handler of that logger hears of each step as it ends, at level DEBUG; the record has it as ``step``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

LOGGER = logging.getLogger("trtdiag.steps")


@dataclass(frozen=True)
class TimedStep:
    """A step that has ended.

    Attributes:
        kind: ``stage``, ``export``, ``build`` or ``compare``.
        name: Which of them.
        facts: What is known of it before it begins.
        thread: The name of the thread that it ran in.
        begun_ns: When it began, by ``time.perf_counter_ns``.
        took_ns: How long it took.
        failed: Whether it raised.
    """

    kind: str
    name: str
    facts: Mapping[str, str | int]
    thread: str
    begun_ns: int
    took_ns: int
    failed: bool


@contextmanager
def timed(kind: str, name: str, **facts: str | int) -> Iterator[None]:
    """Tell of a step when it ends; without a handler that hears of it this costs nothing."""
    if not LOGGER.isEnabledFor(logging.DEBUG):
        yield
        return
    begun, failed = time.perf_counter_ns(), True
    try:
        yield
        failed = False
    finally:
        took = time.perf_counter_ns() - begun
        step = TimedStep(kind, name, facts, threading.current_thread().name, begun, took, failed)
        LOGGER.debug(
            "%s %s %s after %.3f s", kind, name, "failed" if failed else "ended", took / 1e9, extra={"step": step}
        )
