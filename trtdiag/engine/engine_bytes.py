"""The bytes of engines: large ones are in files, so that they take no memory until they are looked at."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, Union

import numpy as np

from trtdiag.files.mapped import MappedFile, file_at, scratch_file

Blob: TypeAlias = Union[bytes, bytearray, MappedFile]
"""The bytes of an engine, which nobody changes."""

IN_FILE_BYTES = 1 << 26
"""Own choice: smaller engines are in memory; a file would cost more than they do."""


def kept(parts: Callable[[], Iterable[bytes | memoryview]], size_bytes: int) -> bytearray | MappedFile:
    """The bytes of an engine in a file without a name, or in memory where they are few or no file can be had.

    Args:
        parts: Gives the bytes, one part after the other.
        size_bytes: How many they are, about.
    """
    found = scratch_file(parts(), size_bytes) if size_bytes >= IN_FILE_BYTES else None
    return bytearray().join(parts()) if found is None else found


def pieces(content: Blob | memoryview) -> Iterator[bytes | bytearray | memoryview]:
    """The bytes piece by piece: those of a file are read beside the memory that it is mapped to.

    Raises:
        FileChangedError: The file is shorter now.
    """
    view = memoryview(content)
    found = file_at(_address(view)) if view.nbytes else None
    if found is None:
        yield view
    else:
        file, place = found
        yield from file.pieces(place, view.nbytes)


def sha256_of(content: Blob | memoryview) -> str:
    """The digest of the bytes of an engine.

    Raises:
        FileChangedError: They are in a file that is shorter now.
    """
    digest = hashlib.sha256()
    for piece in pieces(content):
        digest.update(piece)
    return digest.hexdigest()


def is_in_file(content: Blob | memoryview) -> bool:
    """Whether these bytes are those of a file that is mapped."""
    view = memoryview(content)
    return bool(view.nbytes) and file_at(_address(view)) is not None


def _address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0])
