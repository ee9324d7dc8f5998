"""Compiled programs are written as all files are; what stops that is an error about the artifact."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from trtdiag.errors import ArtifactError
from trtdiag.files.atomic_write import whole_file


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yields what takes the bytes of a file that is at ``path`` when the block ends without an error.

    Whatever stops the machine or the program, ``path`` is as it was or new as a whole: see ``files/atomic_write.py``.

    Raises:
        ArtifactError: ``file-not-written`` where the system refuses; ``path`` is as it was.
    """
    try:
        with whole_file(path) as file:
            yield file
    except OSError as error:
        raise not_written(path, error) from error


def not_written(path: str | os.PathLike[str], error: OSError) -> ArtifactError:
    """The error about a program that the system does not let us write."""
    return ArtifactError(
        f"{os.fspath(path) or repr('')} cannot be written",
        because=f"the operating system says: {error.strerror or error}",
        fix="name a file in a folder that exists, with space, in which you may write",
        reference="file-not-written",
    )
