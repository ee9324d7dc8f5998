"""What a command did when a library or the system ended its process, said by a process that outlives it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from trtdiag.cli.crash_watchdog import DONE
from trtdiag.cli.progress import LOADING
from trtdiag.cli.supervised_process import Guard
from trtdiag.wording import one_line

_FIXES = (
    (
        "comparing",
        "declare smaller ranges, which leaves these sizes out; compile with --no-verify writes the program without a"
        " comparison, and --engine-cache FOLDER keeps the engines that are built",
    ),
    (
        "building",
        "declare smaller ranges, compile with another --optimization-level, or leave the op to PyTorch"
        " (--keep-in-torch); --engine-cache FOLDER keeps the engines that are built",
    ),
    ("sweeping", "run the same command again: what was done stays"),
)
_FIX = "run it with PYTHONFAULTHANDLER=1 in the environment, which shows where it ended, and report that"


@contextmanager
def last_words(step: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """Give a function to call with each step, which passes it on to ``step`` and notes it.

    TensorRT runs in our process, and a crash of it leaves no exception behind: seen with 8.6.0, where an engine ran at
    sizes that it was built for.  Nothing is told of commands that end by themselves, with an error or not.
    """
    context = click.get_current_context(silent=True)
    guard = None if context is None or not isinstance(context.obj, Guard) else context.obj
    watchdog = _started() if guard is None else None

    def noted(words: str) -> None:
        told, fix = one_line(words), next((fix for begin, fix in _FIXES if words.startswith(begin)), _FIX)
        if guard is not None:
            guard.step(told, fix, loads=words == LOADING)
        _write(watchdog, f"{told}\t{fix}\n")
        step(words)

    try:
        yield noted
    finally:
        _write(watchdog, f"{DONE}\n")
        if watchdog is not None:
            with suppress(OSError, subprocess.TimeoutExpired):  # the command's own end comes first
                watchdog.communicate(timeout=5)


def _started() -> subprocess.Popen[bytes] | None:
    """The process, in a session of its own so that Ctrl-C does not reach it; ``None`` where none can be had."""
    command = [sys.executable, "-S", str(Path(__file__).with_name("crash_watchdog.py"))]
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    except OSError:
        return None


def _write(watchdog: subprocess.Popen[bytes] | None, line: str) -> None:
    if watchdog is None or watchdog.stdin is None or watchdog.stdin.closed:
        return
    with suppress(OSError):  # it is gone: then nobody tells
        watchdog.stdin.write(line.encode("utf-8", "replace"))
        watchdog.stdin.flush()
