"""What a path leads to: a file that can be replaced, or something that is written through."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

_DESCRIPTOR = re.compile(r"(/dev|/proc/\d+)(?:/task/\d+)?/fd/(\d+)")
_MOST_LINKS = 40
"""As many as Linux follows."""


def open_descriptor(path: str | os.PathLike[str]) -> int | None:
    """The number of the open file of this process that a path names, such as ``/dev/stdout``; links are followed."""
    place = os.path.abspath(path)
    for _ in range(_MOST_LINKS):
        place = os.path.join(os.path.realpath(os.path.dirname(place)), os.path.basename(place))
        match = _DESCRIPTOR.fullmatch(place)
        if match is not None and match[1] in ("/dev", os.path.realpath("/proc/self")):
            return int(match[2])
        try:
            place = os.path.normpath(os.path.join(os.path.dirname(place), os.readlink(place)))
        except OSError:
            return None  # no link: it names itself
    return None


def written_through(path: str | os.PathLike[str]) -> bool:
    """Whether a path leads to a device, a pipe or an open file, which takes bytes and is never replaced.

    Raises:
        OSError: Nothing can be written there: it is a folder, a socket, a disk, or has an empty name.
    """
    if not os.fspath(path):
        raise FileNotFoundError(errno.ENOENT, "the name is empty")
    if not may_be_named(os.fspath(path)):
        raise OSError(errno.EINVAL, "no file can have that name")
    if open_descriptor(path) is not None:
        return True
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory", os.fspath(path))
    if stat.S_ISSOCK(mode):
        raise OSError(errno.ENXIO, "it is a socket", os.fspath(path))
    if stat.S_ISBLK(mode):
        raise OSError(errno.EPERM, "it is a disk, and what is on it would be lost", os.fspath(path))
    return not stat.S_ISREG(mode)


def is_written_through(path: str | os.PathLike[str]) -> bool:
    """Whether ``written_through`` says so; not where nothing can be written."""
    try:
        return written_through(path)
    except OSError:
        return False


def may_be_named(name: str) -> bool:
    """Whether a file can have such a name or path."""
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


def check_destination(path: str | os.PathLike[str]) -> None:
    """Find out before the work that nothing can be written to a path.

    Raises:
        OSError: As writing there would.
    """
    if written_through(path):
        return
    target = Path(os.path.realpath(path))
    os.lstat(target.parent)
    if not target.parent.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(target.parent))
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target.parent))
