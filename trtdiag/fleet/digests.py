"""Digests of what programs are made from: of files their content, of factories the module that has them."""

from __future__ import annotations

import hashlib
import json
import os
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from trtdiag import __version__
from trtdiag.converter_packages import packages
from trtdiag.files.atomic_write import write_entry
from trtdiag.files.bounded_read import open_regular
from trtdiag.files.module_files import module_files
from trtdiag.fleet.facts import SweepProgram

_CHUNK = 1 << 20


class Digests:
    """SHA-256 of files, kept with their size and time of change, so that gigabytes are read once.

    Args:
        kept: The file that keeps them.
    """

    def __init__(self, kept: Path) -> None:
        self._kept = kept
        self._new = False
        try:
            found = json.loads(kept.read_bytes())
        except (OSError, ValueError):
            found = {}
        self._known: dict[str, list[object]] = found if isinstance(found, dict) else {}

    def of_file(self, path: str | os.PathLike[str]) -> str:
        """Give the digest of a file's content; of one that cannot be read, why."""
        place = os.path.realpath(path)
        try:
            about = os.stat(place)
            state = [about.st_size, about.st_mtime_ns]
            known = self._known.get(place)
            if isinstance(known, list) and known[:2] == state and isinstance(known[-1], str):
                return known[-1]
            found = file_digest(place)
        except OSError as error:
            return f"unreadable: {error.strerror}"
        self._known[place] = [*state, found]
        self._new = True
        return found

    def of_program(self, program: SweepProgram) -> list[str]:
        """Give what stands for a program in a key: the content of its files, and its name in them."""
        text = program.source
        if os.path.isdir(text):
            files = sorted(each for each in Path(text).rglob("*") if each.is_file())
            return [f"{each.relative_to(text).as_posix()} {self.of_file(each)}" for each in files]
        if os.path.exists(text):
            return [self.of_file(text)]
        module, _, name = text.rpartition(":")
        places = [module] if module.endswith(".py") else list(module_files(module))
        return [name, "" if module.endswith(".py") else module, *map(self.of_file, places)]

    def keep(self) -> None:
        """Write those that are new."""
        if self._new:
            write_entry(self._kept, [json.dumps(self._known).encode()])


def file_digest(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's content.

    Raises:
        OSError: It cannot be read.
    """
    digest = hashlib.sha256()
    with open_regular(path) as file:  # a pipe would be waited for
        while part := file.read(_CHUNK):
            digest.update(part)
    return digest.hexdigest()


def digest_of(value: object) -> str:
    """SHA-256 of a value as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@lru_cache(maxsize=1)
def of_tool() -> list[str]:
    """What stands for trtdiag, torch and packages with converters in a key.

    Between two releases the code changes while the version does not.
    """
    own = [__version__, _digest_below(Path(__file__).resolve().parents[1]), version_of("torch") or ""]
    return [*own, *(f"{each.name} {each.version} {_converters_digest(each.module)}" for each in packages())]


def _digest_below(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _converters_digest(module: str) -> str:
    """Of the files of a package: its converters may be in any of them."""
    first = next(module_files(module.partition(".")[0]), None)
    if first is None:
        return "not there"
    return _digest_below(Path(first).parent) if Path(first).name == "__init__.py" else file_digest(first)


def version_of(distribution: str) -> str | None:
    """The version of an installed distribution; ``None`` where there is none."""
    try:
        return metadata.version(distribution)
    except (metadata.PackageNotFoundError, ValueError):
        return None
