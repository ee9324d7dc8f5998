"""The one way in which files are written: what is at a path is the old content or the whole new one."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, cast

from trtdiag.files.destination import open_descriptor, written_through
from trtdiag.files.unfinished import make_unfinished, remove_abandoned

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NEW_FILE = 0o666  # less the umask, as of every file that a program makes


class _Sink(io.RawIOBase):
    """Takes bytes for a file; what the system refuses it keeps to itself until it is asked.

    An exception within ``write`` ends the process where the caller is C++ code that writes again while it is torn
    down, as the archive writer of PyTorch does ("terminate called ... c10::Error").  So after one error everything is
    taken and dropped, and ``check`` raises it.
    """

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self._failed: BaseException | None = None
        self._ended = False

    def write(self, content: Buffer, /) -> int:
        """Take bytes; gives how many."""
        if self._failed is None and self._ended:
            self._failed = io.UnsupportedOperation("the file is at its end")
        if self._failed is None:
            try:
                self._file.write(content)
            except BaseException as error:  # Ctrl-C too: it waits until the caller is through
                self._failed = error
        return memoryview(content).nbytes

    def check(self) -> None:
        """Raise the first error of writing, if there was one."""
        if self._failed is not None:
            raise self._failed

    def flush(self) -> None:
        """Hand on what is buffered."""
        if self._failed is None and not self._file.closed:
            try:
                self._file.flush()
            except OSError as error:
                self._failed = error

    def tell(self) -> int:
        """How many bytes were taken, where the file counts them."""
        return self._file.tell()

    def writable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """Yes, although a pipe is not: PyTorch asks, and goes to the start when all is written."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to the start, where nothing more is written: it ends the file, and is nothing else here."""
        if (offset, whence) != (0, os.SEEK_SET):
            raise io.UnsupportedOperation("files are written from their start to their end")
        self._ended = True
        return 0


class Writing(AbstractContextManager["Writing"]):
    """A file that was begun.

    Attributes:
        file: Takes its bytes; what the system refuses is raised by ``settle``.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._written = file
        self._sink = _Sink(file)
        self.file = cast(IO[bytes], self._sink)

    def settle(self) -> None:
        """Bring the bytes to where they can no longer be refused.

        Raises:
            OSError: The system refuses one of them.
        """
        self._sink.flush()
        self._sink.check()

    def put(self) -> None:
        """Let what was written be what is at the path.

        Raises:
            OSError: The system refuses; a file that was there is as it was.
        """
        self.settle()
        self._written.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # what could not be written was told, or another error is
            self._written.close()


def _through(path: str | os.PathLike[str]) -> Writing:
    """A device, a pipe or an open file: written as it comes, for nothing there could be put back."""
    descriptor = open_descriptor(path)
    flags = os.O_WRONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)
    return Writing(os.fdopen(os.open(path, flags) if descriptor is None else os.dup(descriptor), "wb"))


class _Replacing(Writing):
    """A file beside the path, which takes its place."""

    def __init__(self, target: Path, *, durable: bool) -> None:
        self._target = target
        self._durable = durable
        remove_abandoned(target.parent)
        self._mode = _mode(target)
        self._unfinished, descriptor = make_unfinished(target, _NEW_FILE if self._mode is None else 0o600)
        super().__init__(os.fdopen(descriptor, "wb"))

    def settle(self) -> None:
        """See ``Writing``."""
        super().settle()
        if self._durable:
            os.fsync(self._written.fileno())

    def put(self) -> None:
        """See ``Writing``."""
        self.settle()
        if self._mode is not None:
            os.chmod(self._unfinished, self._mode)
        if os.name == "nt":
            self._written.close()  # an open file keeps its name there
        # Still open, so that no other program takes it for abandoned.
        os.replace(self._unfinished, self._target)
        self._written.close()
        if self._durable:
            sync_folder(self._target.parent)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        with suppress(FileNotFoundError):  # it has taken its place
            os.unlink(self._unfinished)


def begin(path: str | os.PathLike[str], *, durable: bool = True) -> Writing:
    """Begin to write a file, as a context: what was written to ``file`` is at ``path`` from ``put()`` on, or never.

    Files are written beside the path, under a name that says so; what killed programs left there is removed first.
    Devices, pipes and open files (``/dev/stdout``) are written through and never replaced; a pipe waits for its reader.

    Args:
        path: Where the file goes.
        durable: Whether the bytes are forced to the disk before the name changes.

    Raises:
        OSError: The system refuses; what was at ``path`` is as it was.
    """
    if written_through(path):
        return _through(path)
    return _Replacing(Path(os.path.realpath(path)), durable=durable)  # a link stays a link


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yields what takes the bytes of a file that is at ``path`` when the block ends without an error; see ``begin``.

    Raises:
        OSError: The system refuses; what was at ``path`` is as it was.
    """
    with begin(path) as writing:
        yield writing.file
        writing.put()


Parts = Iterable[bytes | bytearray | memoryview]


def write_whole(path: str | os.PathLike[str], parts: Parts, *, durable: bool = True) -> None:
    """Write a file in one step; see ``begin``.

    Raises:
        OSError: The system refuses; what was at ``path`` is as it was.
    """
    _fill(begin(path, durable=durable), parts)


def write_entry(path: Path, parts: Parts) -> None:
    """Write a file of a cache in one step: its name is ours, so whatever is there is replaced, a link or a pipe too.

    It is not forced to the disk: what reads it knows a damaged one.

    Raises:
        OSError: The system refuses; what was at ``path`` is as it was.
    """
    _fill(_Replacing(path, durable=False), parts)


def _fill(begun: Writing, parts: Parts) -> None:
    with begun as writing:
        for part in parts:
            writing.file.write(part)
        writing.put()


def _mode(target: Path) -> int | None:
    """The permissions of the file that is replaced, where it is one."""
    try:
        mode = os.lstat(target).st_mode
    except FileNotFoundError:
        return None
    return stat.S_IMODE(mode) & 0o777 if stat.S_ISREG(mode) else None


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, where the system lets folders be opened."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
