"""A process that builds engines, one at a time, from both sides.

It is started, not forked: CUDA is in use where engines are built, and a script need not guard its main part.  Networks
and answers go through a pipe, weights through a file that is mapped.
"""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from logging.handlers import QueueHandler
from math import prod
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Lock, Thread
from types import SimpleNamespace
from typing import IO, Any, NoReturn

import torch

from trtdiag.engine.backend import Backend, BuiltBy, Profile, get_backend
from trtdiag.engine.build_watch import Watch, build_stopped
from trtdiag.errors import TrtdiagError
from trtdiag.files.memory_map import map_file
from trtdiag.network import Network
from trtdiag.network.weights import Places, weight_from_bytes
from trtdiag.options import CompileOptions
from trtdiag.targets import Target
from trtdiag.wording import one_line

_POLL_S = 0.1  # how soon it is noticed that a build is not wanted any more
_START_S = 300.0  # own choice: importing takes some seconds, from a cold network drive minutes

OURS = "trtdiag"  # the logger above all of ours


class UnusableError(Exception):
    """No process can be had, or it cannot use what this one can."""


class EndedError(Exception):
    """A process ended before its answer: how, as ``Popen.returncode`` says it, and with which line printed last."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(code, said)
        self.code, self.said = code, said


@dataclass(frozen=True)
class Request:
    """A build.

    Attributes:
        network: What to build, without its weights.
        places: These.
        profile: The sizes to build for.
        options: What the user asked for.
        target: The TensorRT version that the network was written for.
        device: The GPU; ``None`` where there is none.
        by: What has to build it: a process may see other GPUs, or another TensorRT.
        levels: Those of our loggers.
    """

    network: Network
    places: Places
    profile: Profile
    options: CompileOptions
    target: Target
    device: int | None
    by: BuiltBy
    levels: Mapping[str, int]


class BuilderProcess:
    """A process that builds, as it is seen from the one that wants engines.

    Args:
        backend: The name of the backend.
        weights: The file with the weights.
        gpu: The GPU that it is made ready for.

    Attributes:
        popen: It, as the system has it.
        ready: It was seen to be able to build.
        waits: It builds nothing.

    Raises:
        OSError: None can be started.
    """

    def __init__(self, backend: str, weights: IO[bytes], gpu: int | None) -> None:
        self._pipe, theirs = Pipe()
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  ``end`` closes it
        with theirs:
            self.popen = started(self._said, theirs.fileno(), weights.fileno(), backend, gpu)
        self._deadline = time.monotonic() + _START_S
        self.ready, self.waits = False, True

    @property
    def gone(self) -> bool:
        """Whether it has ended since it was ready."""
        return self.ready and self.popen.poll() is not None

    @property
    def begun(self) -> bool:
        """Whether it said that it is ready, or why not; it has to within some minutes."""
        return self.ready or self._pipe.poll() or time.monotonic() > self._deadline

    def build(self, request: bytes, watch: Watch) -> bytes:
        """The engine that a pickled ``Request`` asks for, once it has begun.

        Raises:
            EngineBuildError: ``build-stopped``; what the backend refuses.
            EndedError: It ended.
            UnusableError: It cannot build.
        """
        self.waits = False
        try:
            if not self.ready:
                if not self._pipe.poll():
                    raise UnusableError(f"one of its own did not begin within {_START_S:.0f} s")
                self._answer(watch)
                self.ready = True
            self._pipe.send_bytes(request)
            found = self._answer(watch)
        except (EOFError, ConnectionError):
            raise EndedError(self._code(), self._last_words()) from None
        self.waits = True
        if isinstance(found, BaseException):
            raise found
        return bytes(found)

    def _answer(self, watch: Watch) -> Any:
        """What it answers: an error, or an engine's bytes; ``None`` that it is ready."""
        while True:
            while not self._pipe.poll(_POLL_S):
                if watch.stopped:
                    raise build_stopped()
            match self._pipe.recv():
                case "step", words, share:
                    watch.tell(words, share)
                    if watch.stopped:
                        raise build_stopped()
                case "log", record:
                    logger = logging.getLogger(record.name)
                    if logger.isEnabledFor(record.levelno):
                        logger.handle(record)
                case ("ready",):
                    return None
                case "cannot", why:
                    raise UnusableError(f"one of its own cannot: {why}")
                case "error", error, trace:
                    error.__cause__ = None if trace is None else RuntimeError(f"in the builder's process:\n{trace}")
                    return error
                case "built", notes, warnings:
                    watch.notes.extend(notes)
                    watch.warnings.extend(warnings)
                    return self._pipe.recv_bytes()

    def end(self) -> None:
        """End it, whatever it does."""
        self.popen.kill()
        self.popen.wait()
        self._pipe.close()
        self._said.close()

    def _code(self) -> int:
        try:
            return self.popen.wait(10)
        except subprocess.TimeoutExpired:  # it goes on without the pipe
            return 0

    def _last_words(self) -> str:
        size = os.fstat(self._said.fileno()).st_size
        text = os.pread(self._said.fileno(), 4096, max(0, size - 4096)).decode(errors="replace")
        lines = [line for line in text.partition("Fatal Python error")[0].splitlines() if line.strip()]
        return one_line(lines[-1]) if lines else ""


_START = (
    "import sys; sys.path[:] = sys.argv[5:]; from trtdiag.engine.builder_process import serve; serve(*sys.argv[1:5])"
)


def started(said: IO[bytes], pipe: int, weights: int, *asked: object) -> subprocess.Popen[bytes]:
    """A new Python that serves, with the modules of this one.

    Args:
        said: Where to what it prints goes.
        pipe: The descriptor of its end of the pipe.
        weights: That of the file with the weights.
        asked: What ``serve`` takes beside these.

    Raises:
        OSError: None can be started.
    """
    paths = [path for path in sys.path if isinstance(path, str)]
    return subprocess.Popen(
        [sys.executable or "", "-c", _START, *map(str, (pipe, weights, *asked)), *paths],
        stdin=subprocess.DEVNULL,
        stdout=said,  # what libraries print is no part of what the user's program prints
        stderr=said,
        pass_fds=(pipe, weights),
        start_new_session=True,  # Ctrl-C in a terminal goes to the process that waits, which decides
    )


# What follows runs in the new process.


def serve(pipe: str, weights: str, name: str, gpu: str) -> NoReturn:
    """Build what comes through a pipe until its other end is closed, or gone.

    Args:
        pipe: The descriptor of the pipe.
        weights: That of the file with the weights.
        name: The backend.
        gpu: The GPU, or ``None``.
    """
    import resource

    # A search for an op ends many processes, and each has all of TensorRT and PyTorch in its memory.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    connection, sending = Connection(int(pipe)), Lock()

    def send(*answer: Any, content: bytes | None = None) -> None:
        with sending:
            connection.send(answer)
            if content is not None:
                connection.send_bytes(content)

    ours = logging.getLogger(OURS)
    ours.propagate = False
    ours.addHandler(QueueHandler(SimpleNamespace(put_nowait=partial(send, "log"))))
    try:
        backend = get_backend(name)
        backend.built_by()  # imports TensorRT
        if gpu != "None":
            torch.zeros(1, device=f"cuda:{gpu}")  # fails where a GPU takes no second process
    except Exception as error:  # whatever it is: the other process builds then
        send("cannot", f"{type(error).__name__}: {one_line(str(error))}")
    else:
        send("ready")
        with suppress(TrtdiagError):  # a build that comes is refused for the same
            backend.warm_up()
    while True:
        try:
            content = connection.recv_bytes()
        except (EOFError, OSError):
            os._exit(0)
        # In a thread, since the other process may end meanwhile.
        Thread(target=_build, args=(backend, content, int(weights), send), daemon=True).start()


def _build(backend: Backend, content: bytes, weights: int, send: Callable[..., None]) -> None:
    watch = Watch(partial(send, "step"))
    try:
        asked: Request = pickle.loads(content)
        for name, level in asked.levels.items():
            logging.getLogger(name).setLevel(level)
        with nullcontext() if asked.device is None else torch.cuda.device(asked.device):
            by = backend.built_by()
            if by != asked.by:
                send("cannot", f"it has {by}, not {asked.by}")
                return
            network = replace(asked.network, weights=_mapped(asked.places, weights))
            blob = backend.build(network, asked.profile, asked.options, asked.target, watch)
    except Exception as error:  # the other process raises it
        send("error", _portable(error), None if isinstance(error, TrtdiagError) else traceback.format_exc())
    else:
        send("built", watch.notes, watch.warnings, content=bytes(blob))


def _mapped(places: Places, descriptor: int) -> dict[str, torch.Tensor]:
    """The weights of the file, in whose memory they stay."""
    view = memoryview(map_file(descriptor, "") or b"")
    return {
        key: weight_from_bytes(dtype, shape, view[start : start + prod(shape) * dtype.torch.itemsize])
        for key, (start, dtype, shape) in places.items()
    }


def _portable(error: Exception) -> Exception:
    """The error, or its words where it holds what no other process can have."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its class does
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
