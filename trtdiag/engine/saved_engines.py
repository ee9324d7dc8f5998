"""Engines that were built before, in a folder: one file each, found by what decides over their bytes.

Any number of programs may use a folder at once.  A file is written in one step, and read only where it says of itself
exactly what is asked for and its digest is that of its bytes; everything else counts as not there and is built anew.
Beside it stands which engines this process built, or took from the folder that it was told to use.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import Any

from trtdiag.engine.engine_bytes import Blob, kept, pieces, sha256_of
from trtdiag.errors import UserError
from trtdiag.files.atomic_write import write_entry
from trtdiag.files.bounded_read import open_regular
from trtdiag.options import MIB

_LOGGER = logging.getLogger("trtdiag.engine_cache")
_MAGIC = b"trtdiag saved engine 1\n"
_SUFFIX = ".engine"
# Only files of these names are ever removed: the folder may hold others.
_OURS = re.compile(rf"[0-9a-f]{{64}}{re.escape(_SUFFIX)}")
_LENGTH_BYTES = 8
_MOST_HEAD_BYTES = 2**20
"""Own choice: what is said of an engine takes a few KiB; more is a damaged length."""
_BUILT_HERE: set[str] = set()


@dataclass(frozen=True)
class SavedEngines:
    """A folder of engines.

    Attributes:
        folder: Where they are.
        limit_bytes: Beyond that the engines that were not used for longest are removed.
    """

    folder: Path
    limit_bytes: int

    @classmethod
    def at(cls, folder: str, limit_mib: int) -> SavedEngines:
        """The folder, made where it is missing.

        Raises:
            UserError: ``engine-cache-folder`` where it cannot be used.
        """
        path = Path(folder).expanduser()
        try:
            path.mkdir(parents=True, exist_ok=True)
            usable = os.access(path, os.R_OK | os.W_OK | os.X_OK)
            why = "" if usable else "you may not read and write there"
        except FileExistsError:
            why = "there is a file of that name"
        except (OSError, ValueError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        if why:
            raise UserError(
                f"{folder} cannot be the folder of an engine cache",
                because=why,
                fix="name a folder in which you may write, or compile without an engine cache",
                reference="engine-cache-folder",
            )
        return cls(path, limit_mib * MIB)

    def find(self, about: str) -> tuple[Blob, tuple[str, ...]] | None:
        """The engine of which this can be said, with its notes, and from now on the one that was used last.

        Args:
            about: All that decides over its bytes.

        Returns:
            ``None`` where none is.
        """
        path = self._path(about)
        try:
            with _opened(path) as file:
                said = _head(file, about, self.limit_bytes)
                blob = None if said is None else _engine(file, said)
                if said is not None and blob is not None:
                    _touch(path, file)
                    return blob, tuple(said.get("notes", ()))
        except FileNotFoundError:
            return None
        except OSError as error:
            _LOGGER.warning("%s cannot be read (%s): the engine is built again", path, error.strerror or error)
            return None
        _LOGGER.warning("%s is damaged or of something else: the engine is built again", path)
        return None

    def keep(self, about: str, blob: Blob, notes: Sequence[str] = ()) -> bool:
        """Whether the engine could be kept; what does not fit, or cannot be written, is only said in the log."""
        said = {"about": about, "sha256": sha256_of(blob), "bytes": len(blob), "notes": list(notes)}
        head = json.dumps(said).encode()
        whole = len(_MAGIC) + _LENGTH_BYTES + len(head) + len(blob)
        if whole > self.limit_bytes:
            _LOGGER.warning(
                "an engine of %d MiB is not kept: the limit is %d MiB", whole // MIB, self.limit_bytes // MIB
            )
            return False
        try:
            _make_room(self._path(about))
            begin = (_MAGIC, len(head).to_bytes(_LENGTH_BYTES, "little"), head)
            write_entry(self._path(about), chain(begin, pieces(blob)))
        except OSError as error:
            _LOGGER.warning("an engine is not kept in %s: %s", self.folder, error.strerror or error)
            return False
        self._remove_oldest()
        return True

    def _path(self, about: str) -> Path:
        return self.folder / (hashlib.sha256(about.encode()).hexdigest() + _SUFFIX)

    def _remove_oldest(self) -> None:
        """Remove what was not used for longest until the rest fits."""
        entries: list[tuple[float, int, Path]] = []
        try:
            with os.scandir(self.folder) as found:
                for entry in found:
                    with suppress(FileNotFoundError):  # another program removed it
                        seen = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(seen.st_mode) and _OURS.fullmatch(entry.name):
                            entries.append((seen.st_mtime, seen.st_size, Path(entry.path)))
        except OSError as error:
            _LOGGER.warning("%s cannot be listed: %s", self.folder, error.strerror or error)
            return
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.limit_bytes:
                return
            try:
                path.unlink(missing_ok=True)
                total -= size
            except OSError as error:
                _LOGGER.debug("%s stays: %s", path, error)


def _opened(path: Path) -> BufferedReader:
    """A file of the folder: what leads out of it is none."""
    if path.is_symlink():
        raise OSError(0, "it is a link", str(path))
    return open_regular(path)


def _head(file: BufferedReader, about: str, most_bytes: int) -> dict[str, Any] | None:
    """The head of a file, which is then at its engine; ``None`` where the file is not whole, or of another engine."""
    start = file.read(len(_MAGIC) + _LENGTH_BYTES)
    if len(start) < len(_MAGIC) + _LENGTH_BYTES or not start.startswith(_MAGIC):
        return None
    length = int.from_bytes(start[len(_MAGIC) :], "little")
    if length > _MOST_HEAD_BYTES:
        return None
    try:
        said = json.loads(file.read(length))
    except (ValueError, RecursionError):
        return None
    left = os.fstat(file.fileno()).st_size - len(start) - length
    if not isinstance(said, dict) or said.get("about") != about or said.get("bytes") != left:
        return None
    if not 0 <= left <= most_bytes:
        return None
    notes = said.get("notes", [])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        return None
    return said


def _engine(file: BufferedReader, said: dict[str, Any]) -> Blob | None:
    """What follows the head, where it is the engine that the head names."""
    start, digest = file.tell(), hashlib.sha256()
    while part := file.read(MIB):  # memory is taken only for what is an engine
        digest.update(part)
    if digest.hexdigest() != said.get("sha256"):
        return None

    def parts() -> Iterator[bytes]:
        file.seek(start)
        while part := file.read(MIB):
            yield part

    blob = kept(parts, said["bytes"])
    return blob if len(blob) == said["bytes"] else None


def _make_room(path: Path) -> None:
    """Take a folder out of the place of an engine, which a file cannot replace; what is in it is kept."""
    if path.is_symlink() or not path.is_dir():
        return
    aside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f"{path.name[:64]}.", suffix=".moved"))
    os.replace(path, aside)
    _LOGGER.warning("%s was a folder, and an engine belongs there: it is %s now", path, aside.name)


def _touch(path: Path, file: BufferedReader) -> None:
    try:
        os.utime(file.fileno() if os.utime in os.supports_fd else path)
    except OSError as error:  # it then counts as unused for longer than it is
        _LOGGER.debug("%s keeps its time: %s", path, error)


def note_built(engine_sha256: str) -> None:
    """Remember an engine by the digest of its bytes."""
    _BUILT_HERE.add(engine_sha256)


def built_here(engine_sha256: str) -> bool:
    """Whether this process made the engine: its code is then trusted as this process is."""
    return engine_sha256 in _BUILT_HERE
