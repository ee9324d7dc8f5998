"""A file that other programs see as the old one or as the whole new one, and one that is nothing but a file."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path

UNFINISHED = ".part"
"""The suffix of files that are being written; one that a killed program left behind is read by nobody."""


def write_whole(path: Path, parts: Iterable[bytes | bytearray | memoryview]) -> None:
    """Write a file in one step, as other programs see it.

    It is not forced to the disk: what reads it knows a damaged one.

    Raises:
        OSError: The system refuses; ``path`` is as it was.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:64]}.", suffix=UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def open_regular(path: Path) -> BufferedReader:
    """A file to read, never something that is no file: a FIFO waits for a writer, a device may have no end.

    Raises:
        OSError: The system refuses, or what is there is no regular file.
    """
    # Opening some devices does something already, so they are told by their name first; what takes the place of a file
    # between the two looks is opened without waiting for it.
    _expect_regular(path, os.stat(path).st_mode)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    file = os.fdopen(os.open(path, flags), "rb")
    try:
        _expect_regular(path, os.fstat(file.fileno()).st_mode)
    except OSError:
        file.close()
        raise
    return file


def _expect_regular(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(0, "it is no regular file", str(path))
