"""A backend that may crash, and processes of it that are forks: each costs no import of PyTorch."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from typing import IO, Any

import pytest

from trtdiag.engine import backend as registry, builder_process
from trtdiag.engine.backend import Profile
from trtdiag.engine.build_watch import Watch
from trtdiag.engine.engine_bytes import Blob
from trtdiag.engine.reference import _Reference
from trtdiag.errors import EngineBuildError, PlatformError
from trtdiag.network import Network
from trtdiag.options import CompileOptions
from trtdiag.targets import Target

HOME = "tests.engine.standin_builder"
DONE: dict[str, int] = {}
"""What becomes of a network with such a layer: the signal that ends its process."""
STARTED: list[Fork] = []


class Standin(_Reference):
    """The reference backend; what some layers do to its process is in ``DONE``."""

    name = "standin"
    may_crash = True

    def warm_up(self) -> None:
        """Says so, and fails, as TensorRT does where it cannot use a GPU: a build says why."""
        logging.getLogger("trtdiag.tensorrt").warning("warmed up by %d", os.getpid())
        raise PlatformError("no", because="of a test", fix="none", reference="builder-missing")

    def build(self, network: Network, profile: Profile, options: CompileOptions, target: Target, watch: Watch) -> Blob:
        """The network, or the end of the process; adds to the timings, as TensorRT does."""
        watch.tell("half", 0.5)
        if options.timing_cache is not None:
            with open(options.timing_cache, "a+") as file:
                file.seek(0)
                logging.getLogger("trtdiag.tensorrt").warning("knows of %d builds", len(file.readlines()))
                file.write("a build\n")
        for kind in (placed.layer.kind for placed in network.layers):
            if kind in DONE:
                os.write(1, f"a library says something of {kind}\n".encode())
                if DONE[kind]:
                    os.kill(os.getpid(), DONE[kind])
                time.sleep(60)
        logging.getLogger("trtdiag.tensorrt").warning("built by %d", os.getpid())
        if options.workspace_mib == 2:
            raise FileNotFoundError("a file of the builder's")
        if options.workspace_mib == 1:
            error = EngineBuildError("no", because="of a test", fix="none", reference="engine-refused")
            error.without_kernel = ("a", "b")
            raise error
        watch.note("a note")
        watch.warned("a warning")
        return super().build(network, profile, options, target, watch)


def backend() -> Standin:
    """For the registry."""
    return Standin()


class Fork:
    """In the place of ``subprocess.Popen``: a child that serves."""

    def __init__(self, said: IO[bytes], pipe: int, weights: int, *asked: object) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid:
            STARTED.append(self)
            return
        try:
            faulthandler.disable()  # it writes to where the tests' own errors go
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            first, second = sorted((pipe, weights))
            os.closerange(3, first)  # the other end of the pipe, whose end this is to see
            os.closerange(first + 1, second)
            os.closerange(second + 1, 1 << 16)
            builder_process.serve(*map(str, (pipe, weights, *asked)))
        finally:
            os._exit(99)

    def poll(self, how: int = os.WNOHANG) -> int | None:
        """As that of ``Popen``."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, how)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """As that of ``Popen``."""
        for _ in range(int((timeout or 60) * 100)):
            if self.poll() is not None:
                return int(self.returncode or 0)
            time.sleep(0.01)
        raise subprocess.TimeoutExpired("a fork", timeout or 60)

    def kill(self) -> None:
        """As that of ``Popen``."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def register(patch: pytest.MonkeyPatch, done: Mapping[str, int], start: Any = Fork) -> list[Fork]:
    """Make it the backend ``standin`` for one test; gives the processes, as they are started."""
    patch.setattr(registry, "_HOMES", {**registry._HOMES, "standin": HOME})
    patch.setattr(builder_process, "started", start)
    patch.setattr(f"{HOME}.DONE", dict(done))
    patch.setattr(f"{HOME}.STARTED", started := [])
    return started
