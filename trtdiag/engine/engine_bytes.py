"""The bytes of engines: large ones are in files, so that they take no memory until they are looked at."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, Union

import numpy as np

from trtdiag.errors import ArtifactError
from trtdiag.files.memory_map import MappedFile, file_at, scratch_file

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


def file_of(content: Blob | memoryview) -> MappedFile | None:
    """The file that these bytes are mapped from; ``None`` where they are in memory."""
    view = memoryview(content)
    found = file_at(_address(view)) if view.nbytes else None
    return None if found is None else found[0]


def file_changed(file: MappedFile) -> ArtifactError:
    """The error about a file that is in use and is another one now."""
    return ArtifactError(
        f"{file.file or 'a temporary file'} was changed while it was in use",
        because=f"{file.changed or 'it ends too early'}; its weights are read when they are needed",
        fix="load it again; what is written to another file that is then renamed, as trtdiag.save does it, may take its"
        " place at any time",
        reference="file-changed",
    )


def refuse_changed(files: Iterable[MappedFile]) -> None:
    """Pass files that are what they were when they were mapped.

    Raises:
        ArtifactError: ``file-changed``.
    """
    for file in files:
        if file.changed:
            raise file_changed(file)


def _address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0])
