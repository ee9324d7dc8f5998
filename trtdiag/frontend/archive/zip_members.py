"""The members of a zip file, read without trusting any number in it.

A member is read at most once and from one open file, and what was checked is the very object that is used later:
there is no second parser and no second read that could see something else.  Large weights alone are mapped
(``weights.py``): of them no more is believed than that they are so many bytes.
"""

from __future__ import annotations

import errno
import io
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from trtdiag.files.bounded_read import open_regular, reason
from trtdiag.files.memory_map import MappedFile, map_file
from trtdiag.frontend.archive.errors import refusal
from trtdiag.frontend.archive.file_kinds import HEAD_BYTES, kind_of_bytes

# torch writes members without compression, so that a file cannot declare more than its own size.  A file that a
# tool has compressed again is read up to this factor; deflate can reach 1,032, which is what a bomb uses.
LIMIT_EXPANSION = 50
LIMIT_MEMBERS = 200_000
_LOCAL_HEADER = b"PK\x03\x04"
_LOCAL_HEADER_BYTES = 30
_END_RECORD = re.compile(rb"(?=PK\x05\x06.{16}(..))", re.DOTALL)  # looked ahead at: one may begin within another
_END_RECORD_BYTES = 22
_LONGEST_COMMENT = 65_535
_PIECE_BYTES = 1 << 24
_ENCRYPTED = 0x1
_UNOPENED = {
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EILSEQ), "file-not-found"),
    **dict.fromkeys((errno.EACCES, errno.EPERM), "permission-denied"),
    errno.EISDIR: "is-a-directory",
    errno.EINVAL: "not-a-regular-file",
}
# Everything that zipfile and zlib raise on damaged input (read off CPython 3.10 to 3.13).
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, ValueError, OverflowError)


class Container:
    """An open zip file whose table of contents was checked.

    Args:
        stream: The open file; it stays the caller's to close.
        file: How to name it to the user.
        size_bytes: Its size.

    Raises:
        CaptureError: The file is cut off, damaged, or declares more than the limits of this module.
    """

    def __init__(self, stream: io.BufferedReader | io.BytesIO, file: str, size_bytes: int) -> None:
        self.file = file
        self.size_bytes = size_bytes
        self._stream = stream
        self._mapped: MappedFile | None = None
        _check_ends(stream, file, size_bytes)
        try:
            self._zip = zipfile.ZipFile(stream)
        except (*_ZIP_ERRORS, OSError) as error:
            raise refusal("corrupt-archive", file, str(error) or type(error).__name__) from error
        entries = self._zip.infolist()
        _check_entries(entries, file, size_bytes)
        root = _common_root(entries)
        self._entries = {entry.filename[len(root) :]: entry for entry in entries if not entry.is_dir()}

    @property
    def names(self) -> tuple[str, ...]:
        """Every member's name, without the folder that all of them are in."""
        return tuple(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def size(self, name: str) -> int:
        """A member's size in bytes, as the archive declares it."""
        return self._entries[name].file_size

    def read(self, name: str) -> bytes:
        """A member's bytes, with their checksum verified."""
        content = bytearray(self.size(name))
        self.read_into(name, memoryview(content))
        return bytes(content)

    def read_into(self, name: str, target: memoryview) -> None:
        """Fills a buffer of exactly the member's size and verifies the checksum."""
        filled = 0
        with self._opened(name) as member:
            while count := member.readinto(target[filled : filled + _PIECE_BYTES]):  # type: ignore[attr-defined]
                filled += count
        if filled != len(target):
            detail = f"{len(target):,} bytes were declared and {filled:,} are there"
            raise refusal("corrupt-member", self.file, name, detail)

    def verify(self, name: str) -> None:
        """Verifies the checksum of a member, piece by piece: nothing of it comes to be held."""
        piece = bytearray(_PIECE_BYTES)
        with self._opened(name) as member:
            while member.readinto(piece):  # type: ignore[attr-defined]
                pass

    def mapped(self, name: str) -> tuple[MappedFile, int] | None:
        """The file in memory, and where a member's bytes begin there, unverified.

        ``None`` for a member that is compressed, and where the system maps no such file.
        """
        entry = self._entries[name]
        if entry.compress_type != zipfile.ZIP_STORED or isinstance(self._stream, io.BytesIO):
            return None
        with self._opened(name):  # its own header agrees with the table of contents
            pass
        self._stream.seek(entry.header_offset)
        header = self._stream.read(_LOCAL_HEADER_BYTES)
        start = entry.header_offset + len(header) + sum(struct.unpack("<HH", header[-4:]))
        if start + entry.file_size > self.size_bytes:
            raise refusal("corrupt-member", self.file, name, "it reaches beyond the end of the file")
        if self._mapped is None:
            self._mapped = map_file(self._stream.fileno(), self.file)
        if self._mapped is None or len(self._mapped) != self.size_bytes:
            return None
        return self._mapped, start

    @contextmanager
    def _opened(self, name: str) -> Iterator[IO[bytes]]:
        """A member; what is found wrong with it in the block is an error about it."""
        try:
            # Opening checks that the member's own header agrees with the table of contents, reading its checksum.
            with self._zip.open(self._entries[name]) as member:
                yield member
        except (*_ZIP_ERRORS, OSError) as error:
            changed = "its checksum is wrong: some of its bytes have changed" if "CRC-32" in str(error) else str(error)
            raise refusal("corrupt-member", self.file, name, changed or type(error).__name__) from error


@contextmanager
def open_container(path: str | os.PathLike[str]) -> Iterator[Container]:
    """Opens a file once and yields its members.

    Raises:
        CaptureError: See ``Container``; also for a path that is missing, a directory, empty or not a zip.
    """
    file = os.fspath(path)
    try:
        stream = open_regular(file)
    except OSError as error:
        named = repr(file) if error.errno == errno.EILSEQ else file
        raise refusal(_UNOPENED.get(error.errno or 0, "unreadable-file"), named, reason(error)) from error
    with stream:
        yield Container(stream, file, os.fstat(stream.fileno()).st_size)


def _check_ends(stream: IO[bytes], file: str, size_bytes: int) -> None:
    """The file begins with a member and ends with the end record, with nothing behind it.

    zipfile searches the end record backwards and takes any it finds.  A file that is cut off may still contain the
    one of a zip inside it (the example inputs are such a member), so its place is checked here.
    """
    if size_bytes == 0:
        raise refusal("empty-file", file)
    try:
        stream.seek(0)
        head = stream.read(HEAD_BYTES)
        stream.seek(max(0, size_bytes - _END_RECORD_BYTES - _LONGEST_COMMENT))
        tail = stream.read()
    except OSError as error:
        raise refusal("unreadable-file", file, error.strerror or str(error)) from error
    if not head.startswith(_LOCAL_HEADER):
        if len(head) < len(_LOCAL_HEADER) and _LOCAL_HEADER.startswith(head):
            raise refusal("truncated-archive", file, size_bytes, "there is nothing more")
        kind = kind_of_bytes(head)
        raise refusal("not-a-zip", file, kind.looks_like, kind.advice)
    for record in reversed([*_END_RECORD.finditer(tail)]):
        comment_bytes = int.from_bytes(record[1], "little")
        if record.start() + _END_RECORD_BYTES + comment_bytes == len(tail):
            if comment_bytes:
                raise refusal("unsupported-archive", file, "it carries a comment behind its table of contents")
            return
    raise refusal("truncated-archive", file, size_bytes, "the table of contents, which is written last, is missing")


def _check_entries(entries: list[zipfile.ZipInfo], file: str, size_bytes: int) -> None:
    if len(entries) > LIMIT_MEMBERS:
        raise refusal("too-large", file, f"it lists {len(entries):,} members; the limit is {LIMIT_MEMBERS:,}")
    seen: set[str] = set()
    for entry in entries:
        name = entry.filename
        if name != entry.orig_filename or not _is_plain_path(name):
            raise refusal("corrupt-archive", file, f"a member is called {entry.orig_filename!r}")
        if name in seen:
            raise refusal("corrupt-archive", file, f"two members are called {name!r}")
        seen.add(name)
        if entry.flag_bits & _ENCRYPTED:
            raise refusal("unsupported-archive", file, f"{name} is encrypted")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise refusal("unsupported-archive", file, f"{name} is packed by method {entry.compress_type}")
        if entry.compress_type == zipfile.ZIP_STORED and entry.compress_size != entry.file_size:
            raise refusal("corrupt-archive", file, f"{name} is stored as it is, with two different sizes")
    _check_extent(entries, file, size_bytes)


def _check_extent(entries: list[zipfile.ZipInfo], file: str, size_bytes: int) -> None:
    """Members lie one behind the other inside the file: overlapping ones are how a small file declares petabytes."""
    end = 0
    for entry in sorted(entries, key=lambda item: item.header_offset):
        if entry.header_offset < end:
            raise refusal("corrupt-archive", file, f"{entry.filename} overlaps the member before it")
        end = entry.header_offset + len(_LOCAL_HEADER) + entry.compress_size
    if end > size_bytes:
        raise refusal("corrupt-archive", file, "members reach beyond the end of the file")
    if entries and min(entry.header_offset for entry in entries) != 0:
        raise refusal("corrupt-archive", file, "its first member does not begin at its first byte")
    declared = sum(entry.file_size for entry in entries)
    if declared > LIMIT_EXPANSION * size_bytes:
        limit = f"the limit is {LIMIT_EXPANSION} times its size"
        raise refusal("too-large", file, f"{declared:,} bytes in a file of {size_bytes:,}; {limit}")


def _is_plain_path(name: str) -> bool:
    if not name or not name.isprintable() or "\\" in name:
        return False
    parts = name.removesuffix("/").split("/")
    return all(part not in ("", ".", "..") for part in parts)


def _common_root(entries: list[zipfile.ZipInfo]) -> str:
    """The folder that torch puts all members in (``archive/``, or the file's name), empty if there is none."""
    roots = {entry.filename.partition("/")[0] for entry in entries}
    if len(roots) != 1 or not all("/" in entry.filename for entry in entries):
        return ""
    return roots.pop() + "/"
