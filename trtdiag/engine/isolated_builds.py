"""Builds in processes of their own: where a builder crashes, it ends such a process, and not the user's.

A process builds one engine at a time, so that its end says which; builds at once have one each.
"""

from __future__ import annotations

import copy
import logging
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from threading import Condition

import torch

from trtdiag.engine.backend import Backend, Profile, get_backend
from trtdiag.engine.build_watch import Watch, build_stopped
from trtdiag.engine.builder_process import OURS, BuilderProcess, EndedError, Request, UnusableError
from trtdiag.engine.engine_bytes import Blob
from trtdiag.engine.tensorrt.gpu import free_mib
from trtdiag.errors import EngineBuildError
from trtdiag.files.atomic_folder import temporary_folder
from trtdiag.network import Network
from trtdiag.network.weights import WeightsFile
from trtdiag.options import CompileOptions
from trtdiag.targets import Target

BUILDER_ENDED = "builder-ended"
"""The reference of a builder's process that ended by itself before its answer."""
BUILDER_KILLED = "builder-killed"
"""The same where somebody else ended it."""
_SIGNALS = {each.value: each.name for each in signal.Signals}
_CRASHES = ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP")
"""The signals that a process gets for what it does itself."""
_POLL_S = 0.05  # how soon it is noticed that one has begun
ROOM_MIB = 4096
"""Own choice: a builder of 8.6.0 takes 1.4 GiB for its kernels, its context 0.5, and what it measures more."""
_LOGGER = logging.getLogger("trtdiag.builder_process")


@contextmanager
def isolated_builds(backend: Backend, options: CompileOptions) -> Iterator[Backend]:
    """A backend that builds in processes of their own until the block ends; as given where it cannot or need not.

    Args:
        backend: It.
        options: What the user asked for.
    """
    if (
        not isinstance(backend, Backend)
        or not backend.may_crash
        or options.build_in_process
        or os.name != "posix"
        or getattr(sys, "frozen", False)  # such a program cannot be started as Python
        or type(get_backend(backend.name)) is not type(backend)
    ):
        yield backend
        return
    apart = copy.copy(backend)
    with PROCESSES_OF.get()(backend) as apart.builders:
        yield apart


class IsolatedBuilds:
    """The processes of one compilation; several threads may build at once.

    Args:
        backend: What builds in them, by its name, and here where none can be had.
        waits_beside_mib: How much of the GPU's memory has to be free where one process may wait when all engines of a
            compilation are built; ``None``: none may.
    """

    def __init__(self, backend: Backend, waits_beside_mib: int | None = None) -> None:
        self._backend = backend
        self._waits_beside_mib = waits_beside_mib
        self._folders = ExitStack()
        self._timings: Path | None = None
        self._changed = Condition()
        self._waiting = 0
        self._weights = WeightsFile()
        self._all: list[BuilderProcess] = []
        self._idle: list[BuilderProcess] = []
        self._crashed = False
        self._unusable = False

    def start(self) -> None:
        """Begin to start a process, which is ready some seconds later, if none waits."""
        try:
            with self._changed:
                if not self._idle:
                    self._idle.append(self._new())
        except OSError as error:
            self._cannot(str(error))

    def build(self, network: Network, profile: Profile, options: CompileOptions, target: Target, watch: Watch) -> Blob:
        """The engine of a network, built in a process of its own; in this one where none can be had.

        Raises:
            EngineBuildError: ``builder-ended``, ``builder-killed``: the process ended; ``build-stopped`` where
                ``watch`` asked for that; what the backend refuses.
        """
        if not self._unusable:
            try:
                return self._built(network, profile, options, target, watch)
            except UnusableError as error:
                self._cannot(str(error))
        return self._backend.build(network, profile, options, target, watch)

    def _built(
        self, network: Network, profile: Profile, options: CompileOptions, target: Target, watch: Watch
    ) -> bytes:
        bare, by, levels = replace(network, weights={}, recipes={}), self._backend.built_by(), _levels()
        try:
            places, options = self._weights.places(network.weights), self._with_timings(options)
            child = self._taken(watch)
        except OSError as error:
            raise UnusableError(str(error)) from error
        try:
            asked = Request(bare, places, profile, options, target, self._gpu(), by, levels)
            return child.build(pickle.dumps(asked), watch)
        except EndedError as ended:
            if not child.ready:
                raise UnusableError(f"one of its own {_how(ended)}") from None
            death = _death(ended)
            self._crashed = self._crashed or death.reference == BUILDER_ENDED
            raise death from None
        finally:
            self._give_back(child)

    def _with_timings(self, options: CompileOptions) -> CompileOptions:
        """The options with a file where the builds of a compilation find what those before measured.

        Programs that are tried, repaired or cut into blocks have most layers in common.

        Raises:
            OSError: There is no room for a folder.
        """
        if options.timing_cache is not None:
            return options
        with self._changed:
            if self._timings is None:
                # We hold a lock on the folder; builders lock the one that the file is in.
                inner = self._folders.enter_context(temporary_folder("trtdiag-timings")) / "shared"
                inner.mkdir()
                self._timings = inner / "timings"
        return replace(options, timing_cache=os.fspath(self._timings))

    def _cannot(self, why: str) -> None:
        with self._changed:
            # Where others work, one more was too much for the memory.
            self._unusable = not any(each.ready for each in self._all)
        _LOGGER.warning("engines are built in this process, which a crash of the builder ends: %s", why)

    def _gpu(self) -> int | None:
        """The GPU that is current in this thread, where there is one."""
        return torch.cuda.current_device() if self._backend.device == "cuda" and torch.cuda.is_available() else None

    def _new(self) -> BuilderProcess:
        child = BuilderProcess(self._backend.name, self._weights.file, self._gpu())
        self._all.append(child)
        return child

    def _taken(self, watch: Watch) -> BuilderProcess:
        """The first that is free and has begun; as many are started as builds wait."""
        with self._changed:
            self._waiting += 1
            try:
                while True:
                    for gone in [each for each in self._idle if each.gone]:
                        self._idle.remove(gone)
                        self._all.remove(gone)
                        gone.end()
                    if len(self._idle) < self._waiting and self._room():
                        self._idle.append(self._new())
                    child = next((each for each in self._idle if each.begun), None)
                    if child is not None:
                        break
                    if watch.stopped:
                        raise build_stopped()
                    self._changed.wait(_POLL_S)
            finally:
                self._waiting -= 1
            self._idle.remove(child)
            if self._crashed and not self._idle:  # while an op is looked for, this one may end soon, too
                self._idle.append(self._new())
        return child

    def _room(self) -> bool:
        """Whether the GPU's memory is enough for one more; for the first it is found out."""
        return not self._all or self._free(ROOM_MIB)

    def _free(self, least_mib: int) -> bool:
        """Whether so much of the GPU's memory is free, or no GPU is used."""
        free = free_mib() if self._gpu() is not None else None
        return free is None or free >= least_mib

    def _give_back(self, child: BuilderProcess) -> None:
        with self._changed:
            self._changed.notify_all()
            if child.waits and child in self._all:
                self._idle.append(child)
                return
            self._all = [each for each in self._all if each is not child]
        child.end()

    def rest(self) -> None:
        """End those that build nothing now, for they hold memory of the GPU, but one that may wait.

        A later build starts others.
        """
        with self._changed:
            stay = 1 if self._waits_beside_mib is not None and self._free(self._waits_beside_mib) else 0
            ending, self._idle, self._crashed = self._idle[stay:], self._idle[:stay], False
            self._all = [each for each in self._all if each not in ending]
        _end(ending)

    def forget(self) -> bool:
        """Let go of the weights, as nothing builds now; gives whether a process waits that has built."""
        self._weights.clear()
        return any(child.ready for child in self._idle)

    def end(self) -> None:
        """End all."""
        with self._changed:
            ending, self._all, self._idle = self._all, [], []
        _end(ending)
        self._weights.file.close()
        self._folders.close()


@contextmanager
def _ended(backend: Backend) -> Iterator[IsolatedBuilds]:
    processes = IsolatedBuilds(backend)
    try:
        yield processes
    finally:
        processes.end()


PROCESSES_OF: ContextVar[Callable[[Backend], AbstractContextManager[IsolatedBuilds]]] = ContextVar(
    "processes_of", default=_ended
)
"""Gives a compilation its processes, and takes them back when it is over."""


def _end(ending: Sequence[BuilderProcess]) -> None:
    for child in ending:
        child.popen.kill()
    for child in ending:  # the system takes a while to free a GPU's memory
        child.end()


def _how(ended: EndedError) -> str:
    how = f"ended with code {ended.code}"
    if ended.code < 0:
        how = f"was ended by {_SIGNALS.get(-ended.code, f'signal {-ended.code}')}"
    return f'{how} (it said "{ended.said}")' if ended.said else how


def _death(ended: EndedError) -> EngineBuildError:
    """The error for a process that ended while it built."""
    if ended.code < 0 and _SIGNALS.get(-ended.code) not in _CRASHES:
        return EngineBuildError(
            "the process that builds the engine was ended",
            because=f"it {_how(ended)}: the system does that where memory runs out, or a person did",
            fix="free memory, or declare smaller ranges, and compile again",
            reference=BUILDER_KILLED,
        )
    return EngineBuildError(
        "TensorRT's builder crashed",
        because=f"its process {_how(ended)} while it built this engine",
        fix="compile with another --optimization-level, or leave ops to PyTorch (keep_in_torch), and report it to"
        " NVIDIA with the model",
        reference=BUILDER_ENDED,
    )


def _levels() -> dict[str, int]:
    """The levels of our loggers that have one."""
    known = list(logging.root.manager.loggerDict.items())
    own = {name: each.level for name, each in known if name.startswith(f"{OURS}.") and isinstance(each, logging.Logger)}
    ours = logging.getLogger(OURS).getEffectiveLevel()
    return {OURS: ours, **{name: level for name, level in own.items() if level}}
