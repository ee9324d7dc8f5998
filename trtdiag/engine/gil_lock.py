"""Who may be inside TensorRT: calls that let go of Python's lock run side by side, all others alone.

TensorRT holds locks of its own while it logs, and its log comes to us, which takes Python's lock.  A thread that calls
TensorRT with Python's lock in hand, and waits there for one of TensorRT's, then waits for a build in another thread,
which waits for Python: both for ever, and the whole process with them.  Seen with TensorRT 8.6.0: four programs of up
to eleven engines stood still where one thread wrote its network while another built.

Source: python/src/infer/pyCore.cpp of NVIDIA/TensorRT: ``build_serialized_network`` and ``deserialize_cuda_engine``
release the GIL; ``Builder()``, ``create_network``, ``Runtime()`` and ``create_execution_context`` do not.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, get_ident

_LOGGER = logging.getLogger("trtdiag.turns")
PATIENCE_S = 2.0
"""Own choice, how long a wait is not worth a word: the networks of a program are written within less."""
_POLL_S = 0.2
"""How soon one who waits asks again whether it should."""


_WAITS = "an engine is being built in another thread: this one goes on when that is done"


class Patience:
    """Says something once, where it is called again after a while; until then it waits in silence."""

    def __init__(self, say: Callable[[], None]) -> None:
        self._say, self._at = say, time.monotonic() + PATIENCE_S

    def __call__(self) -> None:
        """Say it, where it is time."""
        if time.monotonic() > self._at:
            self._at = math.inf
            self._say()


class Turns:
    """Threads that want to be alone go before those that want to be beside others, one after the other.

    So eight threads write their eight networks, then build them at once.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._beside = 0
        self._coming: set[int] = set()  # threads that wait to be alone, or soon will
        self._alone: int | None = None  # the thread that is
        self._put_away: list[Callable[[], None]] = []

    @contextmanager
    def coming(self) -> Iterator[None]:
        """While this thread may soon want to be alone: until it was, nobody begins to be beside others.

        Else the first of several would begin its build while the others read their caches, and have them wait for it.
        """
        with self._changed:
            self._coming.add(get_ident())
        try:
            yield
        finally:
            with self._changed:
                self._coming.discard(get_ident())
                self._changed.notify_all()

    @contextmanager
    def alone(self, waits: Callable[[], None] | None = None) -> Iterator[None]:
        """While no other thread is inside; a thread that is alone already stays so.

        Args:
            waits: Called again and again while it is not the turn of this thread; what it raises ends the wait.
                ``None``: a warning is logged where it takes long.
        """
        me = get_ident()
        if self._alone == me:
            yield
            return
        with self._changed, self.coming():
            waits = waits or Patience(lambda: _LOGGER.warning(_WAITS))
            while self._beside or self._alone is not None:
                waits()
                self._changed.wait(_POLL_S)
            self._alone = me
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def beside(self) -> Iterator[None]:
        """While every other thread inside has let go of Python's lock, too."""
        with self._changed:
            self._coming.discard(get_ident())
            self._changed.notify_all()
            while self._coming or self._alone is not None:
                self._changed.wait()
            self._beside += 1
        try:
            yield
        finally:
            with self._changed:
                self._beside -= 1
                last = self._beside == 0
                if last:
                    self._alone = get_ident()
            if last:
                self._leave()

    def put_away(self, free: Callable[[], None]) -> None:
        """Have ``free`` called as soon as nobody is inside: destroying a builder is a call, too."""
        with self._changed:
            self._put_away.append(free)
            if self._beside or self._alone is not None:
                return  # whoever leaves last frees it
            self._alone = get_ident()
        self._leave()

    def _leave(self) -> None:
        """End this thread's turn alone, having freed what was put away."""
        while True:
            with self._changed:
                if not self._put_away:
                    self._alone = None
                    self._changed.notify_all()
                    return
                frees, self._put_away = self._put_away, []
            for free in frees:
                free()


TURNS = Turns()
"""Those of this process: it has one TensorRT."""
