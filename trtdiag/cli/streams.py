"""Standard output, which belongs to the reports: nothing else is printed on it, and where it fails that is said."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, TextIO, cast

import click
from rich.console import Console

from trtdiag.errors import UserError

BROKEN_PIPE = 141
"""Source: POSIX shells, 128 and the number of SIGPIPE: the reader went, as ``head`` does."""

_WRITE, _ERROR_OUTPUT = 1, 2


class StandardOutput:
    """A stream that commands print on.

    Args:
        stream: Where it goes; ``None`` where the process was started with standard output closed.
        apart: Whether the process is the command's own, so that its standard output may be given to nobody else.

    Raises:
        UserError: ``stdout-not-writable``, of what writes.
        click.exceptions.Exit: The reader of a pipe has gone; nothing is said of that.
    """

    def __init__(self, stream: TextIO | None, *, apart: bool = False) -> None:
        self._stream = stream
        self.apart = apart

    def write(self, text: str) -> int:
        """Write as other streams do."""
        if not isinstance(text, str):  # click asks with bytes which kind of stream this is
            raise TypeError(f"a text is written here, not {type(text).__name__}")
        with self._failing():
            return self._there().write(text) if text else 0

    def write_utf8(self, text: str) -> None:
        """Write a file format, whatever the terminal's encoding is."""
        with self._failing():
            stream = self._there()
            raw = getattr(stream, "buffer", None)
            if raw is None:
                stream.write(text)
            else:
                stream.flush()
                raw.write(text.encode("utf-8", "backslashreplace"))
                raw.flush()

    def flush(self) -> None:
        """Hand on what was written."""
        if self._stream is not None:
            with self._failing():
                self._stream.flush()

    def isatty(self) -> bool:
        """Whether a person watches."""
        return self._stream is not None and self._stream.isatty()

    @property
    def encoding(self) -> str:
        """The one of the stream."""
        return "utf-8" if self._stream is None else self._stream.encoding

    def fileno(self) -> int:
        """The descriptor, where there is one."""
        if self._stream is None:
            raise io.UnsupportedOperation("fileno")
        return self._stream.fileno()

    def keep_apart(self) -> None:
        """Let only this stream lead to where standard output goes; the rest of the process prints on standard error."""
        if not self.apart or self._stream is None or self._stream.fileno() != _WRITE:
            return
        self.flush()
        own = os.dup(_WRITE)  # programs that are started do not get it
        os.dup2(_ERROR_OUTPUT, _WRITE)
        stream = self._stream
        self._stream = io.TextIOWrapper(
            open(own, "wb"),  # noqa: SIM115  it lives as long as the process
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.isatty(),
        )

    def _there(self) -> TextIO:
        if self._stream is None:
            raise OSError(0, "it is closed")
        return self._stream

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError as error:
            _silence(self._stream)
            raise click.exceptions.Exit(BROKEN_PIPE) from error
        except OSError as error:
            _silence(self._stream)
            raise UserError(
                "cannot write to standard output",
                because=error.strerror or str(error),
                fix="send it to a place that takes it, or write files only: -q prints nothing",
                reference="stdout-not-writable",
            ) from error


_own: list[StandardOutput] = []


def standard_output() -> StandardOutput:
    """The stream that a command prints on, whatever ``sys.stdout`` is meanwhile."""
    return _own[-1] if _own else StandardOutput(sys.stdout)


def own_console() -> Console:
    """What prints tables and colours there."""
    return Console(file=cast("IO[str]", standard_output()))


@contextmanager
def own_standard_output(*, apart: bool) -> Iterator[None]:
    """Let everything that a command prints go through a ``StandardOutput``, and hand on the last of it."""
    before: Any = sys.stdout
    if os.environ.get("COLUMNS", "").strip("0") == "":
        os.environ.pop("COLUMNS", None)  # an unknown width: rich takes it for none, and prints nothing
    if sys.stdout is None or sys.stderr is None:
        _fill_standard_descriptors()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  it lives as long as the process
    if isinstance(before, io.TextIOWrapper) and before.errors == "strict":
        before.reconfigure(errors="backslashreplace")  # a terminal may lack a letter of what a file is called
    own = StandardOutput(before, apart=apart)
    _own.append(own)
    sys.stdout = cast("TextIO", own)
    try:
        yield
        own.flush()
    except BaseException:
        with suppress(UserError, click.exceptions.Exit):  # the first error is the one to report
            own.flush()
        raise
    finally:
        _own.pop()
        sys.stdout = before


@contextmanager
def prints_on_standard_error(*, reports: bool) -> Iterator[None]:
    """Around what runs code that is not ours: what it prints would stand in the middle of a report.

    Args:
        reports: Whether a report goes to standard output.  Without one, a program that calls the command in its own
            process keeps its standard output.
    """
    own = standard_output()
    if not reports and not own.apart:
        yield
        return
    before: Any = sys.stdout
    own.keep_apart()
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = before


def _fill_standard_descriptors() -> None:
    """Give those that are closed a place, or the next file to be opened would be what libraries print on."""
    while True:
        opened = os.open(os.devnull, os.O_RDWR)
        if opened > _ERROR_OUTPUT:
            os.close(opened)
            return


def _silence(stream: TextIO | None) -> None:
    """Let nothing more come of a stream that failed: Python would try again, and complain, when it ends."""
    if stream is not None:
        with suppress(OSError, ValueError):  # none of the system's files
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
