"""``[tool.trtdiag]`` of the nearest ``pyproject.toml``: defaults for the command line."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trtdiag.errors import UserError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_KEYS: Mapping[str, type] = {
    "target": str,
    "select": list,
    "ignore": list,
    "fail-on": str,
    "keep-in-torch": list,
    "min-segment-ops": int,
    "require-full": bool,
    "truncate-double": bool,
    "precision": str,
    "keep-fp32": list,
    "optimization-level": int,
    "workspace-mib": int,
    "tactic-sources": list,
    "tf32": bool,
    "hardware-compatibility": str,
    "version-compatible": bool,
    "engine-cache": str,
    "engine-cache-mib": int,
    "timing-cache": str,
    "build-jobs": int,
}
# Read from where the file is, whatever folder the command runs in.
_PLACES = ("engine-cache", "timing-cache")
_WANTED: Mapping[type, str] = {
    str: "a string",
    list: "a list of strings",
    int: "a number from 0",
    bool: "true or false",
}


def read_config(start: Path) -> dict[str, Any]:
    """The table's values, keys as in the file, places as paths; empty where no file above ``start`` has the table.

    Raises:
        UserError: The file is no TOML, or the table has an unknown key or a value of the wrong kind.
    """
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            return _checked(_table(path), path)
    return {}


def _table(path: Path) -> Mapping[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UserError(
            f"cannot read {path}",
            because=str(error),
            fix="mend the file, or run from another folder",
            reference="config-unreadable",
        ) from error
    table = content.get("tool", {}).get("trtdiag", {})
    return table if isinstance(table, Mapping) else {}


def _checked(table: Mapping[str, Any], path: Path) -> dict[str, Any]:
    for key, value in table.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            raise UserError(
                f"[tool.trtdiag] has no key {key!r}",
                because=f"found in {path}",
                fix=f"write {near[0]!r}" if near else f"the keys are {', '.join(_KEYS)}",
                reference="config-unknown-key",
            )
        if not _is_a(value, _KEYS[key]):
            wanted = _WANTED[_KEYS[key]]
            raise UserError(
                f"[tool.trtdiag] {key} must be {wanted}",
                because=f"{path} has {value!r}",
                fix=f"write {wanted}",
                reference="config-wrong-value",
            )
    folder = path.parent
    return {key: str(folder / Path(value).expanduser()) if key in _PLACES else value for key, value in table.items()}


def _is_a(value: Any, kind: type) -> bool:
    if kind is list:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if kind is int:
        # To Python true is a number, to the reader of the file it is none.
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return isinstance(value, kind)
