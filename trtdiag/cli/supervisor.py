"""The process that waits for a command's, and says what that cannot: that it was ended."""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from trtdiag.cli.crash_watchdog import ended_words
from trtdiag.cli.supervised_process import HANDED_ON, INTERRUPTED, words_of
from trtdiag.errors import CaptureError, TrtdiagError

_SHOW_CURSOR = b"\r\x1b[2K\x1b[?25h"  # the line of a progress bar goes, and the cursor that it hides comes back


class Watcher:
    """Waits for one child.

    Args:
        child: The process.
        told: The pipe that it tells through.
        secret: What each message begins with.
    """

    def __init__(self, child: int, told: int, secret: bytes) -> None:
        self._child = child
        self._told = told
        self._secret = secret
        self._unread = b""
        self._code: int | None = None
        self._step = ("", "")
        self._running: list[tuple[str, float, float]] = []  # code of the user: what, its limit, when that is over
        self._refused: TrtdiagError | None = None
        self._handed_on: set[int] = set()

    def watch(self, mask: Iterable[int], *, program: bool) -> NoReturn:
        """Wait, and end as the command did.

        Args:
            mask: The signals to block from now on.
            program: Whether this process is nothing but the command; else signals mean afterwards what they did.

        Raises:
            SystemExit: With the command's code.
        """
        woken, wakes = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wakes, False)
        signals = [number for number in HANDED_ON if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, _woken) for number in (*signals, signal.SIGCHLD)}
        woke = signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        try:
            status = self._wait(woken)
        finally:
            if not program:
                signal.set_wakeup_fd(woke)
                for number, answer in before.items():
                    signal.signal(number, answer)
        self._leave(status)

    def _wait(self, woken: int) -> int | None:
        """Give how the child ended, as ``os.waitpid`` says it; ``None`` where it was ended here."""
        sources = [woken, self._told]
        while True:
            try:
                pid, status = os.waitpid(self._child, os.WNOHANG)
            except ChildProcessError:  # nobody kept it, as the caller of this process asked the system
                pid, status = self._child, 0
            if pid:
                os.set_blocking(self._told, False)
                while self._told in sources and self._read():
                    continue
                return status
            ready, _, _ = select.select(sources, [], [], self._left_s())
            if self._told in ready and not self._read():
                sources.remove(self._told)
            if woken in ready:
                for number in set(os.read(woken, 4096)) - {signal.SIGCHLD}:
                    self._handed_on.add(number)
                    os.kill(self._child, number)
            if self._refused is None and self._left_s() == 0:
                what, limit_s, _ = min(self._running, key=lambda each: each[2])
                self._refused = CaptureError(
                    f"{what} took longer than {limit_s:g} s",
                    because="that is its limit (--factory-limit), and it was ended",
                    fix="find out what it waits for, or give it more time: --factory-limit SECONDS",
                    reference="code-took-too-long",
                )
            if self._refused is not None:
                _end_all(self._child)
                os.waitpid(self._child, 0)
                return None

    def _left_s(self) -> float | None:
        end = min((each[2] for each in self._running), default=math.inf)
        return None if end == math.inf else max(0.0, end - time.monotonic())

    def _read(self) -> bool:
        """Take in what was told; false where nothing more can come."""
        try:
            got = os.read(self._told, 1 << 16)
        except BlockingIOError:
            return False
        *lines, self._unread = (self._unread + got).split(b"\n")
        for line in lines:
            if line.startswith(self._secret):
                self._hear(words_of(line[len(self._secret) :]))
        return bool(got)

    def _hear(self, words: list[str]) -> None:
        match words:
            case ["step", step, fix]:
                self._step = (step, fix)
            case ["begins", what, limit_s]:
                limit = float(limit_s) or math.inf
                self._running.append((what, limit, time.monotonic() + limit))
            case ["ends"]:
                self._running.pop()
            case ["copied", message, because, fix, reference]:
                self._refused = CaptureError(message, because=because, fix=fix, reference=reference)
            case ["done", code]:
                self._code = int(code)

    def _leave(self, status: int | None) -> NoReturn:
        number = os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else 0
        if self._refused is None:
            if self._code is None and signal.SIGINT in self._handed_on:
                self._code = INTERRUPTED
            if self._code == INTERRUPTED:
                _show_cursor()
            if self._code is not None:
                sys.exit(self._code)
            if number in self._handed_on:
                _end_by(number)
        _show_cursor()
        how = f"signal {number} ended it" if number else f"it ended with code {os.WEXITSTATUS(status or 0)}"
        if self._refused is None and self._running:
            self._refused = CaptureError(
                f"{self._running[-1][0]} ended the process",
                because=f"{how}, before there was anything to report",
                fix="take out what ends it (os._exit, or what a library does); what runs here has to return",
                reference="code-ended-process",
            )
        if self._refused is not None:
            from trtdiag.cli.error_output import show

            sys.exit(show(self._refused, debug=False))
        why = "a library crashed (TensorRT, CUDA or PyTorch), or the system did it, as where memory runs out"
        if not number:
            why = "the model's code or a library called for the end of the process"
        sys.stderr.write(ended_words(*self._step, f"{why}: {how}"))
        if number:
            _end_by(number)
        sys.exit(CaptureError.exit_code)


def _woken(*_: object) -> None:
    """Do nothing: the number of the signal is in the pipe, which wakes the wait."""


def _end_by(number: int) -> NoReturn:
    """End by a signal as the child did, so that a shell says the same of this process."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the child's core, not this one's
    signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
    os.kill(os.getpid(), number)
    sys.exit(128 + number)  # the first process of a container is not ended by signals


def _show_cursor() -> None:
    if sys.stderr is not None and sys.stderr.isatty():
        os.write(sys.stderr.fileno(), _SHOW_CURSOR)


def _end_all(first: int) -> None:
    """End a process and those that it started, which would go on writing, or keep a pipe open that somebody reads."""
    os.kill(first, signal.SIGSTOP)  # it starts no more
    for each in (*_started_by(first), first):
        try:
            os.kill(each, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # gone, or another user's by now
            continue


def _started_by(first: int) -> list[int]:
    """Processes below one, by what Linux says of each; none elsewhere."""
    parents = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_bytes().rpartition(b")")[2].split()  # the name before it may hold anything
        except OSError:  # gone
            continue
        parents[int(place.parent.name)] = int(fields[1])
    found = [first]
    for one in found:
        found += [each for each, parent in parents.items() if parent == one]
    return found[1:]
