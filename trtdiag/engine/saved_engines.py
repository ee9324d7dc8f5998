"""Engines that were built before, in a folder: one file each, found by what decides over their bytes.

Any number of programs may use a folder at once.  A file is written in one step, and read only where it says of itself
exactly what is asked for and its digest is that of its bytes; everything else counts as not there and is built anew.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trtdiag.engine.whole_file import UNFINISHED, write_whole
from trtdiag.errors import UserError

_LOGGER = logging.getLogger("trtdiag.engine_cache")
_MAGIC = b"trtdiag saved engine 1\n"
_SUFFIX = ".engine"
# Only files of these names are ever removed: the folder may hold others.
_OURS = re.compile(rf"[0-9a-f]{{64}}{re.escape(_SUFFIX)}")
_UNFINISHED = re.compile(rf"\.[0-9a-f]{{64}}\..*{re.escape(UNFINISHED)}")
_LENGTH_BYTES = 8
_MOST_HEAD_BYTES = 2**20
"""Own choice: what is said of an engine takes a few KiB; more is a damaged length."""
_ABANDONED_S = 24 * 3600.0
"""Own choice: no engine takes a day to write, so a file that is unfinished for longer was left by a killed program."""
_MIB = 2**20


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
        except (OSError, ValueError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        if why:
            raise UserError(
                f"{folder} cannot be the folder of an engine cache",
                because=why,
                fix="name a folder in which you may write, or compile without an engine cache",
                reference="engine-cache-folder",
            )
        return cls(path, limit_mib * _MIB)

    def find(self, about: str) -> bytearray | None:
        """The engine of which this can be said, and from now on the one that was used last; ``None`` where none is.

        Args:
            about: All that decides over its bytes.
        """
        path = self._path(about)
        try:
            with path.open("rb") as file:
                content = bytearray(os.fstat(file.fileno()).st_size)
                del content[file.readinto(content) :]
        except FileNotFoundError:
            return None
        except OSError as error:
            _LOGGER.warning("%s cannot be read (%s): the engine is built again", path, error.strerror or error)
            return None
        blob = _engine_of(content, about)
        if blob is None:
            _LOGGER.warning("%s is damaged or of something else: the engine is built again", path)
            return None
        _touch(path)
        return blob

    def notes(self, about: str) -> tuple[str, ...]:
        """What was kept of an engine beside its bytes; nothing where it is not there."""
        try:
            with self._path(about).open("rb") as file:
                start = file.read(len(_MAGIC) + _LENGTH_BYTES)
                length = int.from_bytes(start[len(_MAGIC) :], "little")
                head = json.loads(file.read(min(length, _MOST_HEAD_BYTES)))
        except (OSError, ValueError):
            return ()
        return tuple(map(str, head.get("notes", ()))) if isinstance(head, dict) else ()

    def keep(self, about: str, blob: bytes | bytearray, notes: Sequence[str] = ()) -> bool:
        """Whether the engine could be kept; what does not fit, or cannot be written, is only said in the log."""
        said = {"about": about, "sha256": hashlib.sha256(blob).hexdigest(), "bytes": len(blob), "notes": list(notes)}
        head = json.dumps(said).encode()
        whole = len(_MAGIC) + _LENGTH_BYTES + len(head) + len(blob)
        if whole > self.limit_bytes:
            _LOGGER.warning("an engine of %d MiB is not kept: the limit is %d MiB", whole // _MIB, self.limit_mib)
            return False
        try:
            write_whole(self._path(about), (_MAGIC, len(head).to_bytes(_LENGTH_BYTES, "little"), head, blob))
        except OSError as error:
            _LOGGER.warning("an engine is not kept in %s: %s", self.folder, error.strerror or error)
            return False
        self._remove_oldest()
        return True

    @property
    def limit_mib(self) -> int:
        """The limit in MiB."""
        return self.limit_bytes // _MIB

    def _path(self, about: str) -> Path:
        return self.folder / (hashlib.sha256(about.encode()).hexdigest() + _SUFFIX)

    def _remove_oldest(self) -> None:
        """Remove what was not used for longest until the rest fits, and what killed programs left."""
        entries: list[tuple[float, int, Path]] = []
        try:
            with os.scandir(self.folder) as found:
                for entry in found:
                    self._look_at(entry, entries)
        except OSError as error:
            _LOGGER.warning("%s cannot be listed: %s", self.folder, error.strerror or error)
            return
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.limit_bytes:
                return
            if _removed(path):
                total -= size

    def _look_at(self, entry: os.DirEntry[str], entries: list[tuple[float, int, Path]]) -> None:
        try:
            seen = entry.stat()
        except FileNotFoundError:  # another program removed it
            return
        if _OURS.fullmatch(entry.name):
            entries.append((seen.st_mtime, seen.st_size, Path(entry.path)))
        elif _UNFINISHED.fullmatch(entry.name) and time.time() - seen.st_mtime > _ABANDONED_S:
            _removed(Path(entry.path))


def _engine_of(content: bytearray, about: str) -> bytearray | None:
    """The engine in a file; ``None`` where the file is not whole, or of another engine."""
    start = len(_MAGIC) + _LENGTH_BYTES
    if len(content) < start or content[: len(_MAGIC)] != _MAGIC:
        return None
    length = int.from_bytes(content[len(_MAGIC) : start], "little")
    if length > _MOST_HEAD_BYTES:
        return None
    try:
        head = json.loads(bytes(content[start : start + length]))
    except ValueError:
        return None
    if not isinstance(head, dict) or head.get("about") != about or head.get("bytes") != len(content) - start - length:
        return None
    del content[: start + length]  # in place: engines are large
    return content if hashlib.sha256(content).hexdigest() == head.get("sha256") else None


def _touch(path: Path) -> None:
    try:
        os.utime(path)
    except OSError as error:  # it then counts as unused for longer than it is
        _LOGGER.debug("%s keeps its time: %s", path, error)


def _removed(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:  # another program was quicker
        return True
    except OSError as error:
        _LOGGER.debug("%s stays: %s", path, error)
        return False
    return True
