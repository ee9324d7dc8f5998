"""TensorRT's progress monitor, which versions from 10 on have."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Any

from trtdiag.engine.build_watch import Watch

_LONGEST_CHARS = 60
"""Phases are named after parts of the network, which can be long."""


@dataclass
class _Phase:
    """A phase that was begun: ``steps`` it has, ``done`` of them are."""

    parent: str
    steps: int
    done: int = 0


class Phases:
    """The phases of one build; phases nest, and the outermost one is the build.

    Source: nvinfer1::IProgressMonitor: phases may nest and overlap, and are called from any thread; a step that is
    answered with false ends the build.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._lock = Lock()
        self._open: dict[str, _Phase] = {}

    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        """A phase begins."""
        with self._lock:
            self._open[phase_name] = _Phase(parent_phase or "", max(int(num_steps), 1))
        self._tell(phase_name)

    def step_complete(self, phase_name: str, step: int) -> bool:
        """A step of a phase, counted from 0, is done; whether to go on."""
        with self._lock:
            phase = self._open.get(phase_name)
            if phase is not None:
                phase.done = max(phase.done, int(step) + 1)
        self._tell(phase_name)
        return not self._watch.stopped

    def phase_finish(self, phase_name: str) -> None:
        """A phase ends, wherever it is."""
        with self._lock:
            self._open.pop(phase_name, None)

    def _tell(self, name: str) -> None:
        with self._lock:
            phase = self._open.get(name)
            if phase is None:
                return
            outermost = [own for own in self._open.values() if own.parent not in self._open]
            share = max((self._share(own) for own in outermost), default=0.0)
            words = name if len(name) <= _LONGEST_CHARS else f"{name[: _LONGEST_CHARS - 3]}..."
            done = f" {min(phase.done, phase.steps)} of {phase.steps}" if phase.steps > 1 else ""
        self._watch.tell(words + done, share)

    def _share(self, phase: _Phase) -> float:
        """The share of a phase that is done; the phases inside are part of its next step."""
        inside = [own for own in self._open.values() if self._open.get(own.parent) is phase]
        part = max((self._share(own) for own in inside), default=0.0)
        return min(1.0, (phase.done + part) / phase.steps)


def new_monitor(trt: Any, watch: Watch) -> Any:
    """A monitor that tells ``watch``; ``None`` where the version has none."""
    if not hasattr(trt, "IProgressMonitor"):
        return None

    class Monitor(Phases, trt.IProgressMonitor):  # type: ignore[misc]  # the class is known when TensorRT is imported
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)
            Phases.__init__(self, watch)

    return Monitor()
