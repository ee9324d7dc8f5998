"""Files that are being written: how they are named, whose they are, and which of them a killed program left behind."""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path

SUFFIX = ".trtdiag.part"
_OURS = re.compile(rf"\..*\.[0-9a-f]{{16}}{re.escape(SUFFIX)}", re.DOTALL)
_KEPT_BYTES = 64
"""Own choice, of the name of the file that is to be: file systems take 255 bytes, and a few are added."""
_TRIES = 100


def unfinished_name(name: str) -> str:
    """A hidden name that no other file has: its middle is random."""
    begun = os.fsencode(name)[:_KEPT_BYTES].decode("utf-8", "ignore")
    return f".{begun}.{secrets.token_hex(8)}{SUFFIX}"


def is_one_name(folder: Path, name: str, other: str) -> bool:
    """Whether a file system takes two spellings for one name, as those that do not heed case: tried with a file."""
    same = next(count for count, pair in enumerate(zip_longest(name, other)) if pair[0] != pair[1])
    name, other = (os.fsencode(each[same:])[:_KEPT_BYTES].decode("utf-8", "ignore") for each in (name, other))
    made, descriptor = make_unfinished(folder / name, 0o600)
    try:
        return (folder / made.name.replace(name, other, 1)).exists()
    finally:
        os.close(descriptor)
        with suppress(FileNotFoundError):
            os.unlink(made)


def make_unfinished(target: Path, mode: int) -> tuple[Path, int]:
    """Make a file beside ``target``, locked for as long as its descriptor is open.

    The lock is what tells a file that is being written from one that a killed program left: the system drops it with
    the process, however that ends.

    Args:
        target: What the file is to become.
        mode: Its permissions; the umask takes away from them.

    Raises:
        OSError: The system refuses.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    for _ in range(_TRIES):
        path = target.parent / unfinished_name(target.name)
        try:
            descriptor = os.open(path, flags, mode)
        except FileExistsError:
            continue
        locked(descriptor, wait=True)
        # Another program may have looked at the file before it was locked, and taken it for one that was left.
        if os.fstat(descriptor).st_nlink:
            return path, descriptor
        os.close(descriptor)
    raise FileExistsError(0, "no name is free for the file while it is written", str(target))


def remove_abandoned(folder: Path) -> None:
    """Remove what killed programs of this user left in a folder; what a living one writes stays.

    What cannot be looked at or removed stays: it is in nobody's way.
    """
    try:
        with os.scandir(folder) as entries:
            found = [entry.path for entry in entries if _OURS.fullmatch(entry.name)]
    except OSError:
        return  # writing there says why
    for path in found:
        _remove_if_abandoned(path)


def _remove_if_abandoned(path: str) -> None:
    try:
        seen = os.lstat(path)
        if not stat.S_ISREG(seen.st_mode) or (hasattr(os, "geteuid") and seen.st_uid != os.geteuid()):
            return
        # Not through a link, and not waiting for the other end of a pipe: the name may have changed hands meanwhile.
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return
    try:
        if locked(descriptor, wait=False) and os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            os.unlink(path)
    except OSError:
        return
    finally:
        os.close(descriptor)


def locked(descriptor: int, *, wait: bool) -> bool:
    """Whether a file or folder is ours now, until it is closed.

    Never where the system has no such locks, so that nothing is removed there.
    """
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True
