"""A process that watches the one that works: code of the user, or a library, may end a process with any code.

The command runs in a child, forked before anything is imported, so nothing is copied and nothing is imported twice.
The first process waits: it hands on signals, ends what takes too long, and takes a code for the command's only where
the child told it.  This module imports little, for it stands before all other imports.
"""

from __future__ import annotations

import atexit
import os
import secrets
import signal
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from trtdiag.fleet.orphans import end_with_parent

if TYPE_CHECKING:
    from trtdiag.errors import TrtdiagError

INTERRUPTED = 130
"""Source: POSIX shells, 128 and the number of SIGINT."""

HANDED_ON = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""The signals that the first process hands on."""
_ONE_PRESS_S = 0.5  # a terminal sends Ctrl-C to both processes, and the first hands its own on
_LONGEST = 300  # characters; a write of 4,096 bytes to a pipe is one


class Guard:
    """What the working process tells the one that watches.

    Args:
        pipe: Where to.
        secret: Begins each message, so that nothing else that is written there passes for one.
    """

    def __init__(self, pipe: int, secret: bytes) -> None:
        self._pipe = pipe
        self._secret = secret
        self._ours = os.getpid()
        self._pressed = 0.0
        self._working = False
        self.limit_s = 0.0
        """How long code of the user may run, in seconds; 0 for ever."""

    def step(self, words: str, fix: str, *, loads: bool) -> None:
        """Say what is done from now on, what helps where it ends the process, and whether it only imports."""
        self._working = not loads
        self._tell("step", words, fix)

    def begins(self, what: str) -> None:
        """Say that code of the user begins, which has a limit."""
        self._tell("begins", what, repr(self.limit_s))

    def ends(self) -> None:
        """Say that it came to its end."""
        self._tell("ends")

    def copied(self, error: TrtdiagError) -> None:
        """Say that this is a copy of the working process, which the user's code made: nothing counts but this error."""
        self._ours = os.getpid()
        self._tell("copied", error.message, error.because, error.fix, error.reference)

    def end(self, code: int, *, at_once: bool = False) -> NoReturn:
        """End this process with the command's code; ``at_once`` leaves out what was registered to be done then."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._tell("done", str(code))
        try:
            if not at_once and os.getpid() == self._ours:
                atexit._run_exitfuncs()  # noqa: SLF001  what sys.exit does; the caller's frames are the first process's
        finally:
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except (OSError, ValueError, AttributeError):  # closed, or none
                    continue
            os._exit(code)

    def interrupted(self, number: int, frame: FrameType | None) -> None:
        """Answer Ctrl-C: while libraries are imported, which lose it or complain, end at once; then raise."""
        del number, frame
        now = time.monotonic()
        if now - self._pressed < _ONE_PRESS_S:
            return
        self._pressed = now
        if not self._working:
            self._tell("done", str(INTERRUPTED))
            os._exit(INTERRUPTED)
        raise KeyboardInterrupt

    def _tell(self, kind: str, *words: str) -> None:
        if os.getpid() != self._ours:
            return
        try:
            os.write(self._pipe, self._secret + message(kind, *words))
        except OSError:  # the user's code closed it: then nobody told how the process ended
            return


def message(*words: str) -> bytes:
    """Words as a line of a pipe, which is written at once: none of them is long."""
    return b"\t".join(word[:_LONGEST].encode("unicode_escape") for word in words) + b"\n"


def words_of(line: bytes) -> list[str]:
    """Give the words of such a line."""
    return [word.decode("unicode_escape") for word in line.rstrip(b"\n").split(b"\t")]


def can_guard() -> bool:
    """Whether a program starts here: it can fork, has nothing that a fork would break, and prints for the system."""
    import threading

    plain = sys.stdout is sys.__stdout__ and sys.stderr is sys.__stderr__
    return hasattr(os, "fork") and plain and "torch" not in sys.modules and threading.active_count() == 1


def guarded(*, program: bool) -> Guard:
    """Go on in a child; the first process stays here until that ends, and then ends with its code.

    Args:
        program: Whether the first process is nothing but the command.

    Raises:
        SystemExit: In the first process.
    """
    secret = secrets.token_hex(16).encode() + b"\t"
    told, tell = os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDED_ON)  # none may come between
    parent = os.getpid()
    child = os.fork()
    if child:
        os.close(tell)
        from trtdiag.cli.supervisor import Watcher

        Watcher(child, told, secret).watch(before, program=program)
    os.close(told)
    guard = Guard(tell, secret)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else a shell started it so that it goes on
        signal.signal(signal.SIGINT, guard.interrupted)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    end_with_parent(parent)
    return guard
