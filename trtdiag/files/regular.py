"""Files that are read: nothing else is opened in their place."""

from __future__ import annotations

import os
import stat
from io import BufferedReader
from pathlib import Path


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
