"""A file that is either the old one or the whole new one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from trtdiag.errors import ArtifactError

_ALL = 0o666


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yields a file in the folder of ``path`` that takes its place when the block ends without an error.

    The bytes are on the disk before the name changes: whatever stops the machine or the program, ``path`` is as it was
    or new as a whole.  A killed program leaves a file ``.NAME.*.part`` behind, which nothing reads.

    Raises:
        ArtifactError: ``file-not-written`` where the system refuses; ``path`` is as it was.
    """
    target = Path(os.path.realpath(path))  # a link stays a link: what it leads to is replaced
    try:
        if target.is_dir():
            raise IsADirectoryError(0, "it is a directory", str(target))
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise _refused(path, error) from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode(target))
        os.replace(name, target)
        _sync_folder(target.parent)
    except OSError as error:
        _remove(name)
        raise _refused(path, error) from error
    except BaseException:
        _remove(name)
        raise


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced, or those that a new file gets."""
    try:
        return target.stat().st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return _ALL & ~mask


def _sync_folder(folder: Path) -> None:
    """Put the new name on the disk, too."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(name: str) -> None:
    try:
        os.unlink(name)
    except FileNotFoundError:
        return  # it has taken its place already


def _refused(path: str | os.PathLike[str], error: OSError) -> ArtifactError:
    return ArtifactError(
        f"{os.fspath(path)} cannot be written",
        because=f"the operating system says: {error.strerror or error}",
        fix="choose a folder that exists, with space, in which you may write",
        reference="file-not-written",
    )
