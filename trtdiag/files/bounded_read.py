"""Reading a whole file that a user named: a regular file of a bounded size, never anything that could block or not end.

A named pipe blocks whoever opens it until somebody writes, and a device like ``/dev/zero`` never ends: both are refused
by what they are, before a byte is read.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

from trtdiag.files.destination import may_be_named

_KINDS = (
    (stat.S_ISDIR, errno.EISDIR, "it is a directory"),
    (stat.S_ISFIFO, errno.EINVAL, "it is a named pipe, not a regular file"),
    (stat.S_ISSOCK, errno.EINVAL, "it is a socket, not a regular file"),
    (stat.S_ISCHR, errno.EINVAL, "it is a device, not a regular file"),
    (stat.S_ISBLK, errno.EINVAL, "it is a device, not a regular file"),
)
_PIECE_BYTES = 1 << 22


def read_whole(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """All bytes of a regular file.

    Args:
        path: The file; a link is followed.
        most_bytes: What a larger file is refused for, whatever size it claims.

    Raises:
        OSError: It cannot be read, is something else than a regular file, or has more bytes; ``reason`` says which.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most_bytes:
            raise _too_large(f"it has {size:,} bytes", most_bytes)
        content = bytearray()
        # Files of /proc say that they have no bytes, and others grow while they are read.
        while piece := file.read(min(_PIECE_BYTES, most_bytes + 1 - len(content))):
            content += piece
        if len(content) > most_bytes:
            raise _too_large("it has more bytes", most_bytes)
    return bytes(content)


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """A regular file, open to read bytes.

    Raises:
        OSError: The system refuses, or what is there is no regular file; ``reason`` says which.
    """
    name = _name(path)
    # Opening some devices does something already, so they are told by their name first; what takes the place of a file
    # between the two looks is opened without waiting for it.
    _must_be_regular(os.stat(name).st_mode)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    file = os.fdopen(os.open(name, flags), "rb")
    try:
        _must_be_regular(os.fstat(file.fileno()).st_mode)
    except OSError:
        file.close()
        raise
    return file


def is_there(path: Path) -> bool:
    """Whether the name leads to anything, regular or not; a folder that may not be searched shows nothing.

    Raises:
        OSError: The system cannot tell, such as for a loop of links.
    """
    try:
        os.stat(_name(path))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    return True


def reason(error: OSError) -> str:
    """Why a file could not be read, as a clause: ``No such file or directory``, ``it is a named pipe``."""
    return error.strerror or str(error) or type(error).__name__


def _name(path: str | os.PathLike[str]) -> str:
    name = os.fspath(path)
    if not may_be_named(name):
        raise OSError(errno.EILSEQ, "its name has characters that no file's has")
    return name


def _must_be_regular(mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    for is_kind, number, said in _KINDS:
        if is_kind(mode):
            raise OSError(number, said)
    raise OSError(errno.EINVAL, "it is not a regular file")


def _too_large(size: str, most_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"{size}; at most {most_bytes:,} are read")
