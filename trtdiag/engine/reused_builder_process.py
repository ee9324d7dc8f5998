"""Keeps a process that builds from one compilation to the next, as from graph to graph of ``torch.compile``.

Each process imports PyTorch and starts TensorRT, which takes many seconds, and a model with graph breaks is many
compilations, one after the other.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Timer

from trtdiag.engine.backend import Backend
from trtdiag.engine.isolated_builds import PROCESSES_OF, IsolatedBuilds

_IDLE_S = 60.0
"""Own choice: between two graphs a model runs the first, which takes seconds; whoever waits longer may want the GPU."""
_BESIDE_MIB = 16384
"""Own choice: a process that waits holds some 2 GiB of a GPU; where little is free, what runs next may need them."""

_LOCK = Lock()
_ALL: dict[tuple[object, ...], _Kept] = {}


class _Kept:
    """Processes, and who uses them.

    Args:
        backend: What builds in them.
    """

    def __init__(self, backend: Backend) -> None:
        self.processes = IsolatedBuilds(backend, _BESIDE_MIB)
        self.users = 0
        self.timer: Timer | None = None


@contextmanager
def reused_builder_process() -> Iterator[None]:
    """Within it, a compilation takes the process that one before it has left, and leaves its own to the next.

    A process that nobody takes ends after a minute, or with this one; where little of the GPU's memory is free, none is
    left.
    """
    token = PROCESSES_OF.set(_taken)
    try:
        yield
    finally:
        PROCESSES_OF.reset(token)


@contextmanager
def _taken(backend: Backend) -> Iterator[IsolatedBuilds]:
    # A fork of this process has its own, and one that was started with other modules may not read what it is asked.
    key = (os.getpid(), backend.name, *sys.path)
    with _LOCK:
        kept = _ALL[key] = _ALL.get(key) or _Kept(backend)
        kept.users += 1
        if kept.timer is not None:
            kept.timer.cancel()
    try:
        yield kept.processes
    finally:
        with _LOCK:
            kept.users -= 1
            if not kept.users:
                kept.processes.rest()
                if kept.processes.forget():
                    kept.timer = Timer(_IDLE_S, _end_unused, (key, kept))
                    kept.timer.daemon = True
                    kept.timer.start()
                else:
                    del _ALL[key]
                    kept.processes.end()


def _end_unused(key: tuple[object, ...], kept: _Kept) -> None:
    with _LOCK:
        if _ALL.get(key) is kept and not kept.users:
            del _ALL[key]
            kept.processes.end()


@atexit.register
def _end_all() -> None:
    for key, kept in list(_ALL.items()):
        if key[0] == os.getpid():
            _end_unused(key, kept)
