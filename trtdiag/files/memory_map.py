"""Files as memory: the system reads a page when it is touched, and may drop it again while nobody does.

A file that is replaced, as everything is that trtdiag writes, stays what it was to those who have mapped it.  One that
is written to or cut in place does not: what is read then is another content, or, where the file is shorter now, the
system ends the process (SIGBUS).  ``changed`` tells both before the memory is used, and ``pieces`` reads beside it.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from shutil import disk_usage
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakSet, finalize

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

_PIECE_BYTES = 1 << 22
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
"""Files larger than the memory can be mapped: pages that are written to are few.  Python names it from 3.13 on; the
number is that of x86-64 and ARM."""
_KNOWN: WeakSet[MappedFile] = WeakSet()
_LOCK = Lock()


class FileChangedError(Exception):
    """A file is not what it was when it was mapped.

    Attributes:
        file: The file.
    """

    def __init__(self, file: MappedFile) -> None:
        super().__init__(file.changed)
        self.file = file


class MappedFile(mmap.mmap):
    """A regular file in memory; what is written to the memory does not reach the file.

    It stays for as long as anything looks at a part of it (a memoryview, a tensor).

    Args:
        descriptor: The file, open to read; the caller may close it.
        file: How to name it; empty for one that nobody else can open.

    Attributes:
        file: See there.

    Raises:
        OSError: The system maps no such file.
        ValueError: It is empty.
    """

    file: str

    def __new__(cls, descriptor: int, file: str) -> Self:
        """Map the whole file."""
        size = os.fstat(descriptor).st_size
        made = super().__new__(
            cls, descriptor, size, flags=mmap.MAP_PRIVATE | _NO_RESERVE, prot=mmap.PROT_READ | mmap.PROT_WRITE
        )
        made.file = file
        made._descriptor = os.dup(descriptor)
        finalize(made, os.close, made._descriptor).atexit = False
        made._state = _state(descriptor)
        made._start = int(np.frombuffer(made, np.uint8).__array_interface__["data"][0])
        with _LOCK:
            _KNOWN.add(made)
        return made

    def __init__(self, descriptor: int, file: str) -> None:
        self._descriptor: int
        self._state: tuple[int, int]
        self._start: int

    @property
    def changed(self) -> str:
        """How the file has changed since it was mapped, as a clause; empty where it has not."""
        size, written = _state(self._descriptor)
        if size != self._state[0]:
            return f"it had {self._state[0]:,} bytes when it was opened, and has {size:,} now"
        return "it was written to after it was opened" if written != self._state[1] else ""

    def pieces(self, start: int, size_bytes: int) -> Iterator[bytes]:
        """Part of the file, piece by piece, read beside the memory: nothing of it comes to be held.

        Raises:
            FileChangedError: The file is shorter now.
        """
        end = start + size_bytes
        while start < end:
            piece = os.pread(self._descriptor, min(_PIECE_BYTES, end - start), start)
            if not piece:
                raise FileChangedError(self)
            yield piece
            start += len(piece)

    def drop(self) -> None:
        """Give back the pages that were read; what was written to the memory is lost: it is the file's again."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self.madvise(mmap.MADV_DONTNEED)

    def place(self, address: int) -> int | None:
        """Where an address of this process lies in the file; ``None`` where it does not."""
        return address - self._start if 0 <= address - self._start < len(self) else None


def map_file(descriptor: int, file: str) -> MappedFile | None:
    """The file in memory; ``None`` where the system does not do that.

    Not on Windows: a file that is mapped cannot be replaced there.
    """
    if os.name != "posix":
        return None
    try:
        return MappedFile(descriptor, file)
    except (OSError, ValueError):
        return None


def file_at(address: int) -> tuple[MappedFile, int] | None:
    """The file that is mapped at an address of this process, and the place in it."""
    with _LOCK:
        known = list(_KNOWN)
    for each in known:
        place = each.place(address)
        if place is not None:
            return each, place
    return None


def scratch_file(parts: Iterable[Buffer], size_bytes: int) -> MappedFile | None:
    """These bytes in a file without a name, which goes with its last user; ``None`` where there is no room for it.

    It is in the folder for temporary files (``TMPDIR``), of which half of what is free stays free.

    Args:
        parts: The bytes.
        size_bytes: How many they are.
    """
    if os.name != "posix":
        return None
    try:
        if disk_usage(tempfile.gettempdir()).free < 2 * size_bytes:
            return None
        with tempfile.TemporaryFile() as file:
            for part in parts:
                file.write(part)
            file.flush()
            return map_file(file.fileno(), "")
    except OSError:
        return None


def _state(descriptor: int) -> tuple[int, int]:
    """What tells one content of a file from another, without reading it."""
    seen = os.fstat(descriptor)
    return seen.st_size, seen.st_mtime_ns
