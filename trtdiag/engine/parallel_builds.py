"""Builds the engines of a program, one after the other or several at once.

Builds run in threads of their own, also when there is one at a time: TensorRT then never runs the code that answers
Ctrl-C, which only the main thread does, and the main thread can leave.  A build in a process of its own ends with that.
In this process a build of TensorRT 10 or later ends at its next step; one of 8.6 cannot be stopped and goes on without
anyone waiting.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Barrier, BrokenBarrierError, Event, Thread

import torch

from trtdiag.engine.backend import Backend, Profile
from trtdiag.engine.build import Engine, build_engine
from trtdiag.engine.build_watch import Steps, Watch
from trtdiag.engine.gil_lock import TURNS
from trtdiag.errors import EngineBuildError, InternalError
from trtdiag.network import Network
from trtdiag.options import CompileOptions
from trtdiag.targets import Target

_MOST_JOBS = 8
"""Own choice: each build holds its network's weights twice and needs a CPU core."""
_UNMEASURED_LEVEL = 0
"""At this level nothing is measured.

Source: TensorRT 10.16, Optimizing Builder Performance, "Builder Optimization Level": level 0 selects the first tactic
that succeeds."""
_GRACE_S = 5.0
"""Own choice: a step of a build that can be stopped takes less."""
_POLL_S = 0.2
"""How soon Ctrl-C is noticed on systems where waiting for a lock is not interrupted."""


_BUILDING: list[Event] = []
"""Of the threads that were started last, and of earlier ones that still build, what is set when each ends.

CPython 3.11 takes a thread for ended when Ctrl-C interrupts who waits for it in ``join``.
Source: ``Thread._wait_for_tstate_lock``.
"""


@dataclass
class _Builds:
    """What the threads share: ``results`` has an engine or an error for each index that is done."""

    backend: Backend
    wanted: Sequence[tuple[Network, Profile]]
    options: CompileOptions
    target: Target
    steps: Steps
    stop: Event
    device: int | None
    all_come: Barrier
    waiting: SimpleQueue[int] = field(default_factory=SimpleQueue)
    results: dict[int, Engine | BaseException] = field(default_factory=dict)

    def work(self, ended: Event) -> None:
        """Build what waits, until nothing does or one cannot be built."""
        try:
            # The current GPU is each thread's own.
            with nullcontext() if self.device is None else torch.cuda.device(self.device):
                while not self.stop.is_set():
                    try:
                        index = self.waiting.get_nowait()
                    except Empty:
                        return
                    try:
                        with nullcontext() if getattr(self.backend, "builders", None) else TURNS.coming():
                            # Together for the first time: who is late would wait for those that build already.
                            with suppress(BrokenBarrierError):
                                self.all_come.wait()
                                self.all_come.abort()
                            self.results[index] = self._one(index)
                        self.steps.finished(index)
                    except BaseException as error:  # the thread that waits raises it
                        self.results[index] = error
                        self.stop.set()
        finally:
            self.all_come.abort()
            ended.set()

    def _one(self, index: int) -> Engine:
        network, profile = self.wanted[index]
        name = engine_name(index, len(self.wanted))
        words = f"building {name}, {len(network.layers):,} layers"
        self.steps.tell(index, words, 0.0)
        watch = Watch(lambda what, share: self.steps.tell(index, f"{words}: {what}", share), self.stop)
        return build_engine(self.backend, network, profile, self.options, self.target, watch)


def build_engines(
    backend: Backend,
    wanted: Sequence[tuple[Network, Profile]],
    options: CompileOptions,
    target: Target,
    progress: Callable[[str], None] | None = None,
) -> tuple[Engine, ...]:
    """The engine of each network.

    Args:
        backend: Builds them.
        wanted: Networks and the sizes to build each for.
        options: What the user asked for; ``build_jobs`` says how many are built at once.
        target: The TensorRT version that the networks were written for.
        progress: Called with a ``BuildStep`` for each step, one at a time but from other threads.

    Raises:
        EngineBuildError: The backend refuses a network; names the engine.
    """
    if not wanted:
        return ()
    stop = Event()
    steps = Steps(progress or (lambda _step: None), len(wanted), stop)
    device = torch.cuda.current_device() if backend.device == "cuda" and torch.cuda.is_available() else None
    jobs = jobs_of(options, len(wanted))
    builds = _Builds(backend, wanted, options, target, steps, stop, device, Barrier(jobs))
    for index in range(len(wanted)):
        builds.waiting.put(index)
    ends = [Event() for _ in range(jobs)]
    _BUILDING[:] = [*(ended for ended in _BUILDING if not ended.is_set()), *ends]
    for index, ended in enumerate(ends):
        Thread(target=builds.work, args=(ended,), name=f"trtdiag-build-{index}", daemon=True).start()
    try:
        _wait(ends)
    except BaseException:
        stop.set()
        _wait(ends, _GRACE_S)
        raise
    if steps.raised is not None:
        raise steps.raised
    for index in range(len(wanted)):
        error = builds.results.get(index)
        if not isinstance(error, BaseException) or getattr(error, "reference", "") == "build-stopped":
            continue
        if len(wanted) > 1 and isinstance(error, (EngineBuildError, InternalError)):
            error = error.with_message(f"{engine_name(index, len(wanted))}: {error.message}")
        if isinstance(error, EngineBuildError):
            error.engine = index
        raise error
    return tuple(found for index in range(len(wanted)) if isinstance(found := builds.results[index], Engine))


def jobs_of(options: CompileOptions, count: int) -> int:
    """How many engines are built at once.

    TensorRT allows several builders at once, each in a thread of its own (``Turns`` says what they wait for), but they
    measure kernels on the same GPU, so each sees the others' load, and may choose a slower kernel.  So by default there
    is one, but where nothing is measured.

    Source: TensorRT Developer Guide, "Thread Safety"; python/src/infer/pyCore.cpp of NVIDIA/TensorRT:
    ``build_serialized_network`` releases the GIL.
    """
    jobs = options.build_jobs
    if jobs is None:
        measured = options.optimization_level != _UNMEASURED_LEVEL
        jobs = 1 if measured else min(_MOST_JOBS, os.cpu_count() or 1)
    return max(1, min(jobs, count))


def engine_name(index: int, count: int) -> str:
    """``engine 1 (2 of 5)``: its number as in the report, which counts from 0, and where it is among all."""
    return f"engine {index} ({index + 1} of {count})" if count > 1 else "the engine"


def unfinished() -> bool:
    """Whether a build that nobody waits for is still going on."""
    return any(not ended.is_set() for ended in _BUILDING)


def _wait(ends: Sequence[Event], most_s: float | None = None) -> None:
    left = most_s
    for ended in ends:
        while (left is None or left > 0) and not ended.wait(_POLL_S):
            left = None if left is None else left - _POLL_S
