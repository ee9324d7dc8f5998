"""What TensorRT says while it works."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import Any

LOGGER = logging.getLogger("trtdiag.tensorrt")
# Whoever wants TensorRT's lines adds a handler; without one Python would print its errors beside those of ours that
# hold the same lines.
LOGGER.addHandler(logging.NullHandler())
_MOST_LINES = 200
"""Own choice: a build says thousands of lines; the last ones before a refusal tell why."""
_LEVELS = {
    "INTERNAL_ERROR": logging.ERROR,
    "ERROR": logging.ERROR,
    "WARNING": logging.WARNING,
    "INFO": logging.DEBUG,
}
_WARNING = "[WARNING]"
_MOST_SAID = 5
"""Own choice: errors or lines of one text."""
_MOST_WARNINGS = 2
"""Own choice: why a kernel was left out is said as a warning, right before the error."""
_NUMBER = re.compile(r"^\d+: ")
Lines = deque[str]
"""Lines, each with its severity in front."""


class Listeners:
    """Who listens to the one logger of a process: TensorRT ignores every further one that it is given.

    A thread hears what is said in it.  What TensorRT says in threads of its own all hear: whose work they do is not
    known.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._listening: list[tuple[int, Lines]] = []

    def hear(self, severity: str, text: str) -> None:
        """Take one line."""
        level = _LEVELS.get(severity)
        if level is None:  # verbose: tens of thousands of lines
            return
        LOGGER.log(level, "%s", text)
        here = get_ident()
        with self._lock:
            own = [lines for thread, lines in self._listening if thread == here]
            for lines in own or [lines for _, lines in self._listening]:
                lines.append(f"[{severity}] {text}")

    @contextmanager
    def listening(self) -> Iterator[Lines]:
        """The lines said inside, by this thread or by one that does not listen itself."""
        lines: Lines = deque(maxlen=_MOST_LINES)
        with self._lock:
            self._listening.append((get_ident(), lines))
        try:
            yield lines
        finally:
            with self._lock:
                self._listening = [other for other in self._listening if other[1] is not lines]


def errors_of(lines: Lines) -> list[str]:
    """The lines that report an error."""
    return [line for line in lines if line.startswith(("[ERROR]", "[INTERNAL_ERROR]"))]


def warnings_of(lines: Lines) -> list[str]:
    """What the lines warn of, each text once, without severity."""
    return [_words(line) for line in _each_once([line for line in lines if line.startswith(_WARNING)])]


def last_lines(lines: Lines) -> str:
    """The last errors, with the warnings that came last, else the last lines, as one text.

    What is said twice stands once: TensorRT says an error alone, and again with the place in its code.
    """
    errors = _each_once(errors_of(lines))[-_MOST_SAID:]
    warnings = _each_once([line for line in lines if line.startswith(_WARNING)])[-_MOST_WARNINGS:]
    said = [*errors, *warnings] if errors else _each_once(lines)[-_MOST_SAID:]
    return "; ".join(said) or "TensorRT said nothing"


def _each_once(lines: Iterable[str]) -> list[str]:
    """The lines without those whose words stand in a later one."""
    kept: list[str] = []
    for line in lines:
        kept = [other for other in kept if _words(other) not in line]
        kept.append(line)
    return kept


def _words(line: str) -> str:
    """What a line says, without severity and number of the error."""
    return _NUMBER.sub("", line.partition("] ")[2]).rstrip(".")


def logger_of(trt: Any) -> Any:
    """The logger of this process, made once; its ``listeners`` hear all that it is told."""
    with _LOCK:
        if id(trt) not in _LOGGERS:
            _LOGGERS[id(trt)] = (trt, _new_logger(trt))
        return _LOGGERS[id(trt)][1]


_LOCK = Lock()
_LOGGERS: dict[int, tuple[Any, Any]] = {}


def _new_logger(trt: Any) -> Any:
    class Log(trt.ILogger):  # type: ignore[misc]  # the class is known when TensorRT is imported
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.listeners = Listeners()

        def log(self, severity: Any, msg: str) -> None:
            self.listeners.hear(severity.name, msg)

    return Log()
