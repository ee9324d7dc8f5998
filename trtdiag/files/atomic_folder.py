"""Folders that are written as files are: what is at a path is the old one, or the whole new one."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trtdiag.files.atomic_write import sync_folder
from trtdiag.files.unfinished import SUFFIX, unfinished_name


@contextmanager
def atomic_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yields a folder beside ``path`` that takes its place when the block ends without an error.

    What a killed program left of such folders there is removed first.

    Args:
        path: Where the folder goes; its own folder must be there.
        replace: Whether a folder that is there goes; it is there until the new one is whole.

    Raises:
        OSError: The system refuses; a folder that was there is as it was.
    """
    _remove_abandoned(path.parent)
    work = path.parent / unfinished_name(path.name)
    os.mkdir(work)
    lock = _locked(work)
    try:
        yield work
        _force_to_disk(work)
        if replace and path.exists():
            _exchange(work, path)
        else:
            _rename_new(work, path)
        sync_folder(path.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)  # it has taken its place, or holds what is not wanted
        if lock is not None:
            os.close(lock)


def _rename_new(work: Path, path: Path) -> None:
    if os.path.lexists(path):  # an empty folder would be taken for nothing
        raise FileExistsError(errno.EEXIST, "it is there already", str(path))
    os.rename(work, path)


def _exchange(work: Path, path: Path) -> None:
    old = path.parent / unfinished_name(path.name)
    os.rename(path, old)
    try:
        os.rename(work, path)
    except BaseException:
        os.rename(old, path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _force_to_disk(folder: Path) -> None:
    for place, _, names in os.walk(folder):
        for name in names:
            handle = os.open(os.path.join(place, name), os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        sync_folder(Path(place))


def _locked(folder: Path) -> int | None:
    """A lock on a folder that ends with this process; ``None`` where the system has none, or another one has it."""
    if sys.platform == "win32":
        return None
    import fcntl

    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _remove_abandoned(folder: Path) -> None:
    for path in folder.glob(f".*{SUFFIX}"):
        with suppress(OSError):  # what cannot be looked at is in nobody's way
            seen = os.lstat(path)
            if not stat.S_ISDIR(seen.st_mode) or (hasattr(os, "geteuid") and seen.st_uid != os.geteuid()):
                continue
            lock = _locked(path)
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)
