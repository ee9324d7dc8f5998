"""Whether two paths are one file: by what they lead to, and where nothing is there yet by what would be made."""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trtdiag.errors import UserError
from trtdiag.files.destination import open_descriptor
from trtdiag.files.unfinished import is_one_name

STREAM = "-"
"""As what is read standard input, as a place to write to standard output."""


@dataclass(frozen=True)
class Named:
    """A file with the argument that names it.

    Attributes:
        argument: In the words of the caller: ``--json``, ``SOURCE``; of a usual name what is written, ``the report``.
        path: As given; ``-`` is standard input or output.
        usual_without: Of a usual name, the option that would name another: ``-o``.
    """

    argument: str
    path: str
    usual_without: str | None = None


@dataclass(frozen=True)
class _File:
    """What a path leads to.

    Attributes:
        key: Equal for two paths of one file.
        folder: Of a file that is not there yet, its folder as far as that is there.
        name: Of a file that is not there yet, its path from ``folder``.
    """

    key: tuple[object, ...]
    folder: str = ""
    name: str = ""


def refuse_same(reads: Sequence[Named], writes: Sequence[Named]) -> None:
    """Refuse to write over a file that is read, or that is written under another name.

    Args:
        reads: What is read; of each other these may be the same.
        writes: What is written.

    Raises:
        UserError: ``same-file``.
    """
    seen: list[tuple[Named, _File, bool]] = []
    for named, written in (*((one, False) for one in reads), *((one, True) for one in writes)):
        file = _file(named.path, written)
        if file is None:
            continue
        for earlier, other, was_written in seen:
            if written and _same(file, other):
                raise _refused(earlier, named, read=not was_written)
        seen.append((named, file, written))


def _file(path: str, written: bool) -> _File | None:
    """What a path leads to; ``None`` for a device, which keeps nothing, and for what reading or writing refuses."""
    try:
        descriptor = int(written) if path == STREAM else open_descriptor(path)
        seen = os.stat(path) if descriptor is None else os.fstat(descriptor)
    except FileNotFoundError:
        return _absent(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISCHR(seen.st_mode):
        return _File((seen.st_dev, seen.st_ino))
    return None if descriptor is None else _File(("open", descriptor))


def _absent(path: str) -> _File | None:
    """A file that is not there yet, by the folder that is."""
    if not path:
        return None
    folder, name = os.path.split(os.path.realpath(path))
    while True:
        try:
            seen = os.stat(folder)
        except FileNotFoundError:
            folder, above = os.path.split(folder)
            name = os.path.join(above, name)
        except OSError:
            return None
        else:
            return _File((seen.st_dev, seen.st_ino, name), folder, name)


def _same(one: _File, other: _File) -> bool:
    if one.key == other.key:
        return True
    if not one.name or not other.name or one.key[:2] != other.key[:2] or _folded(one.name) != _folded(other.name):
        return False
    spellings = (name.replace(os.sep, "_") for name in (one.name, other.name))  # of folders that are to be made, too
    try:
        return is_one_name(Path(one.folder), *spellings)
    except OSError:
        return False  # nothing can be written there either, which writing says


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _refused(earlier: Named, named: Named, *, read: bool) -> UserError:
    shown = "standard output" if named.path == STREAM else named.path
    alike = "" if earlier.path == named.path else f" ({earlier.path} and {shown} are the same file)"
    usual = named.usual_without and f"without {named.usual_without} {named.argument} has this name, and "
    if read:
        verb = "would be written over" if usual else "names"
        message = f"{named.argument} {verb} {earlier.argument}" + ("" if usual else " itself")
        because = f"{usual}{earlier.argument} is read" if usual else "it is read, and would be written over"
    else:
        verb = "would be" if usual or earlier.usual_without else "name"
        message = f"{earlier.argument} and {named.argument} {verb} one file"
        because = f"{usual or ''}only one of the two would be left"
    by = f"with {named.usual_without}" if usual else f"for {named.argument}"
    return UserError(
        f"{message}: {shown}",
        because=because + alike,
        fix=f"name another file {by}",
        reference="same-file",
    )
