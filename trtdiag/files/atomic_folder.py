"""Folders that are written as files are: what is at a path is the old one, or the whole new one."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trtdiag.files.atomic_write import sync_folder
from trtdiag.files.unfinished import SUFFIX, locked, unfinished_name


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
    work, lock = _begun(path)
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


@contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """Yields a folder among the temporary ones, for this user alone, that is there until the block ends.

    What a killed program left of them there is removed first.

    Args:
        name: What its name is to begin with.

    Raises:
        OSError: The system refuses.
    """
    place = Path(tempfile.gettempdir())
    _remove_abandoned(place)
    work, lock = _begun(place / name, 0o700)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _begun(path: Path, mode: int = 0o777) -> tuple[Path, int | None]:
    """A folder beside ``path`` and its lock; the umask takes away from ``mode``."""
    while True:
        work = path.parent / unfinished_name(path.name)
        os.mkdir(work, mode)
        with suppress(FileNotFoundError):
            lock = _locked(work, wait=True)
            # Another program may have looked at it before it was locked, and taken it for one that was left.
            if work.exists():
                return work, lock
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


def _locked(folder: Path, *, wait: bool) -> int | None:
    """A lock on a folder that ends with this process; ``None`` where the system has none, or another one has it."""
    if sys.platform == "win32":  # no folder can be opened there
        return None
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
    if locked(handle, wait=wait):
        return handle
    os.close(handle)
    return None


def _remove_abandoned(folder: Path) -> None:
    for path in folder.glob(f".*{SUFFIX}"):
        with suppress(OSError):  # what cannot be looked at is in nobody's way
            seen = os.lstat(path)
            if not stat.S_ISDIR(seen.st_mode) or (hasattr(os, "geteuid") and seen.st_uid != os.geteuid()):
                continue
            lock = _locked(path, wait=False)
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)
