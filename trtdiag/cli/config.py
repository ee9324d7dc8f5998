"""``[tool.trtdiag]`` of the nearest ``pyproject.toml``: defaults for the command line."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from trtdiag.cli.value_checks import MOST_COUNT
from trtdiag.errors import UserError
from trtdiag.files.bounded_read import is_there, read_whole, reason
from trtdiag.options import AnalyzeOptions, CompileOptions, PartitionOptions
from trtdiag.wording import one_line

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_NAMES = (
    "target select ignore fail-on keep-in-torch min-segment-ops require-full truncate-double precision keep-fp32"
    " keep-float optimization-level workspace-mib tactic-sources tf32 hardware-compatibility version-compatible"
    " engine-cache engine-cache-mib timing-cache gpu engine-per-gpu build-jobs build-in-process"
)
_OF_TYPE = {"bool": bool, "int": int, "int | None": int, "tuple[str, ...]": list}
_FIELDS = {
    each.name: str(each.type) for kind in (AnalyzeOptions, CompileOptions, PartitionOptions) for each in fields(kind)
}
_KEYS: Mapping[str, type] = {key: _OF_TYPE.get(_FIELDS.get(key.replace("-", "_"), ""), str) for key in _NAMES.split()}
"""The keys with their types in the file: those of the options' fields, and a string for all else."""
_MOST_BYTES = 1 << 20
_SHOWN_CHARS = 80
# Read from where the file is, whatever folder the command runs in.
_PLACES = ("engine-cache", "timing-cache")
_WANTED: Mapping[type, str] = {
    str: "a string",
    list: "a list of strings",
    int: f"a number from 0 to {MOST_COUNT:,}",
    bool: "true or false",
}


def read_config(start: Path) -> dict[str, Any]:
    """The table's values, keys as in the file, places as paths; empty where no file above ``start`` has the table.

    The nearest ``pyproject.toml`` counts; folders above that may not be searched are taken to have none.

    Raises:
        UserError: The file cannot be read or is no TOML, or the table has an unknown key or a value of the wrong kind.
    """
    path = config_file(start)
    if path is None:
        return {}
    try:
        return _checked(_table(path), path)
    except OSError as error:
        raise _unreadable(path, reason(error)) from error


def config_file(start: Path) -> Path | None:
    """The nearest ``pyproject.toml`` at or above a folder.

    Raises:
        UserError: It cannot be told whether it is there.
    """
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        try:
            if is_there(path):
                return path
        except OSError as error:
            raise _unreadable(path, reason(error)) from error
    return None


def refuse_other(key: str, value: object, words: Sequence[str]) -> None:
    """Refuse a value of the table that is none of an option's.

    Raises:
        UserError: ``config-wrong-value``.
    """
    if value not in words:
        because = "[tool.trtdiag] in pyproject.toml says so"
        raise _wrong_value(f"{key} cannot be {value!r}", because, f"write one of {', '.join(words)}")


def _wrong_value(message: str, because: str, fix: str) -> UserError:
    return UserError(message, because=because, fix=fix, reference="config-wrong-value")


def _table(path: Path) -> Mapping[str, Any]:
    """The table of the file, which need not have one."""
    try:
        found: Any = tomllib.loads(read_whole(path, _MOST_BYTES).decode("utf-8"))
    except RecursionError as error:
        raise _unreadable(path, "its values are nested too deeply") from error
    except ValueError as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise _unreadable(path, str(error)) from error
    name = ""
    for key in ("tool", "trtdiag"):
        found, name = found.get(key, {}), f"{name}.{key}".removeprefix(".")
        if not isinstance(found, Mapping):
            fix = f"write a line [{name}], and its keys below it"
            raise _wrong_value(f"{name} must be a table", f"{path} has {shown_value(found)}", fix)
    return found  # type: ignore[no-any-return]


def _unreadable(path: Path, why: str) -> UserError:
    return UserError(
        f"cannot read {path}",
        because=why,
        fix="mend the file, which may hold [tool.trtdiag], or run from another folder",
        reference="config-unreadable",
    )


def shown_value(value: object) -> str:
    """A value of the file for an error, on one line and not all of a long one."""
    try:
        return one_line(repr(value), _SHOWN_CHARS)
    except ValueError:  # a number of more digits than Python writes
        return "a number of thousands of digits"


def _checked(table: Mapping[str, Any], path: Path) -> dict[str, Any]:
    for key, value in table.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(key[:_SHOWN_CHARS], _KEYS, n=1)
            raise UserError(
                f"[tool.trtdiag] has no key {shown_value(key)}",
                because=f"found in {path}",
                fix=f"write {near[0]!r}" if near else f"the keys are {', '.join(_KEYS)}",
                reference="config-unknown-key",
            )
        if not _is_a(value, _KEYS[key]):
            wanted = _WANTED[_KEYS[key]]
            because = f"{path} has {shown_value(value)}"
            raise _wrong_value(f"[tool.trtdiag] {key} must be {wanted}", because, f"write {wanted}")
    return {key: _place(key, value, path) if key in _PLACES else value for key, value in table.items()}


def _place(key: str, value: str, path: Path) -> str:
    """A place of the table as a path."""
    why = "it is empty" if not value else "no file's name has a null character" if "\0" in value else ""
    try:
        place = path.parent / Path(value).expanduser()
    except RuntimeError as error:  # ~name of nobody, or no home at all
        why = str(error)
    if why:
        because = f"{path} has {shown_value(value)}: {why}"
        raise _wrong_value(
            f"[tool.trtdiag] {key} must be a place", because, "write a path; it begins where the file is"
        )
    return str(place)


def _is_a(value: Any, kind: type) -> bool:
    if kind is list:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if kind is int:
        # To Python true is a number, to the reader of the file it is none.
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_COUNT
    return isinstance(value, kind)
