"""The names of the stages in order, and the clock that all of them run under.

Commands show them before torch is loaded, so nothing here imports it at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from trtdiag.analysis.stage_timing import StageTiming
from trtdiag.errors import TrtdiagError
from trtdiag.options import Progress
from trtdiag.timed_steps import timed

DIAGNOSIS = ("capture", "metadata", "symbols", "shapes", "dims", "memory", "dtypes")
PLANNING = ("lower", "precision", "types", "support", "partition", "fallbacks")
"""The stages that plan engines."""
ANALYZE = (*DIAGNOSIS, *PLANNING, "rules")
COMPILE = (*ANALYZE, "convert", "build", "assemble", "verify", "profile")

_SIDE_BY_SIDE = ("build", "mend", "profile")
"""Stages that wait for engines: threads are in them at once; those inside take their turn."""


class Clock:
    """Tells of each stage as it begins, lets it have its turn with torch, and notes how it went.

    Attributes:
        progress: Called with the name of each stage, and with longer steps inside of one.
        stages: How each went, in order.
    """

    def __init__(self, progress: Progress | None = None) -> None:
        self.progress: Progress = progress or (lambda _stage: None)
        self.stages: list[StageTiming] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Run one stage."""
        self.progress(name)
        started = time.perf_counter()
        try:
            with turn(name), timed("stage", name):
                yield
        except Exception as fault:
            self.stages.append(StageTiming(name, "failed", time.perf_counter() - started, _words(fault)))
            raise
        self.stages.append(StageTiming(name, "ok", time.perf_counter() - started))

    def seconds(self, *names: str) -> float:
        """What these stages took together."""
        return sum(stage.seconds for stage in self.stages if stage.name in names)

    def skip(self, names: Sequence[str], why: str) -> None:
        """Note stages that are not run."""
        self.stages.extend(StageTiming(name, "not run", 0.0, why) for name in names)

    def blame(self, name: str, fault: Exception) -> None:
        """Note that a stage failed by a fault of trtdiag, in it or on the way to it."""
        if self.stages and self.stages[-1].name == name:
            self.stages[-1] = replace(self.stages[-1], fault=fault)
        else:
            self.stages.append(StageTiming(name, "failed", 0.0, _words(fault), fault))

    def note(self, name: str, message: str, state: str = "ok") -> None:
        """Say something of a stage that has ended."""
        self.stages = [replace(one, state=state, message=message) if one.name == name else one for one in self.stages]


def _words(fault: Exception) -> str:
    return str(fault) if isinstance(fault, TrtdiagError) else f"{type(fault).__name__}: {fault}"


@contextmanager
def turn(stage: str) -> Iterator[None]:
    """Let a stage have torch for itself, unless it waits for engines."""
    from trtdiag.frontend.torch_lock import TORCH_TURN

    with nullcontext() if stage in _SIDE_BY_SIDE else TORCH_TURN:
        yield
