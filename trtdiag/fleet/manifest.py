"""A manifest of programs in TOML or JSON: ``[sweep]``, ``[options]`` and a ``[[program]]`` for each."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from trtdiag.arguments import Check, flag, mapping, optional, seconds, text, unknown, whole, words
from trtdiag.errors import ArgumentError, UserError
from trtdiag.files.bounded_read import read_whole, reason
from trtdiag.fleet.facts import Needs, SweepProgram
from trtdiag.fleet.options import SweepOptions, compile_options

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MOST_BYTES = 1 << 26
_HERE = frozenset({"options", "retry_failed", "again"})
"""Fields that a manifest has a table for, or that are of one run."""
_SWEEP = frozenset(each.name for each in fields(SweepOptions)) - _HERE
_NEEDS: Mapping[str, Check] = {
    "cpus": whole(1),
    "memory_gib": optional(seconds),
    "gpu_count": whole(0),
    "gpu_type": text,
}
_PROGRAM: Mapping[str, Check] = {
    "name": text,
    "source": text,
    "inputs": words,
    "imports": words,
    "meta": flag,
    "unpickle": flag,
    "options": compile_options,
    "time_limit_s": seconds,
    **_NEEDS,
}


@dataclass(frozen=True)
class Manifest:
    """What a manifest says.

    Attributes:
        sweep: Fields of ``SweepOptions`` by name.
        options: Options of ``compile`` for all programs.
        programs: As they stand there, with places from where the manifest is.
    """

    sweep: Mapping[str, Any]
    options: Mapping[str, Any]
    programs: tuple[SweepProgram, ...]


def read_manifest(path: Path) -> Manifest:
    """Read a manifest.

    Raises:
        UserError: ``manifest-unreadable``: it cannot be read, or something in it is not known or of another kind.
    """
    try:
        whole_text = read_whole(path, _MOST_BYTES)
        body = _json(whole_text) if path.suffix == ".json" else tomllib.loads(whole_text.decode("utf-8"))
    except OSError as error:
        raise _unreadable(path, reason(error)) from error
    except (ValueError, RecursionError) as error:  # no TOML, no JSON, no UTF-8
        raise _unreadable(path, str(error)) from error
    try:
        return _manifest(body, path.parent)
    except ArgumentError as error:
        raise _unreadable(path, f"{error.message}: {error.because}", error.fix) from error


def _json(content: bytes) -> Any:
    from trtdiag.report.strict_json import JsonFault, parse_json

    try:
        return parse_json(content)
    except JsonFault as fault:
        raise ValueError(str(fault)) from fault


def _manifest(body: Any, folder: Path) -> Manifest:
    tables = _keys(mapping("the manifest", body), ("sweep", "options", "program"), "table")
    sweep = _keys(mapping("sweep", tables.get("sweep", {})), sorted(_SWEEP), "option of a sweep")
    options = compile_options("options", tables.get("options", {}))
    listed = tables.get("program", [])
    if not isinstance(listed, list):
        raise ArgumentError(
            "program cannot be one table",
            because="there may be several, so each is written as [[program]]",
            fix="write [[program]]",
            reference="wrong-argument",
        )
    programs = [program_of(each, folder, f"program {number}") for number, each in enumerate(listed, 1)]
    return Manifest(sweep, options, tuple(programs))


def program_of(table: Any, folder: Path, what: str) -> SweepProgram:
    """A program as a manifest has it.

    Args:
        table: Its keys.
        folder: Where its places begin.
        what: Names it in errors.

    Raises:
        UserError: ``wrong-argument``, ``wrong-option``, ``unknown-option``.
    """
    given = _keys(mapping(what, table), tuple(_PROGRAM), "key of a program")
    if "source" not in given:
        raise ArgumentError(
            f"{what} has no source",
            because=f"it has {', '.join(given) or 'nothing'}",
            fix="write source = 'model.pt2', or package.module:factory",
            reference="wrong-argument",
        )
    found = {key: _PROGRAM[key](f"{what}: {key}", value) for key, value in given.items()}
    needs = {("gpus" if key == "gpu_count" else key): found.pop(key) for key in _NEEDS if key in found}
    program = SweepProgram(**{"name": "", **found, "source": _placed(found["source"], folder)})
    return replace(program, needs=Needs(**needs)) if needs else program


def _placed(source: str, folder: Path) -> str:
    """A path from where the manifest is; ``package.module:factory`` as it stands."""
    module, colon, name = source.rpartition(":")
    if colon and name.isidentifier() and not module.endswith(".py"):
        return source
    return (folder / Path(source).expanduser()).as_posix()


def _keys(table: Mapping[str, Any], known: tuple[str, ...] | list[str], what: str) -> dict[str, Any]:
    """The table with ``_`` in its keys, each of which is known."""
    found = {key.replace("-", "_"): value for key, value in table.items()}
    for key in found:
        if key not in known:
            raise unknown(key, known, what=what)
    return found


def _unreadable(path: Path, why: str, fix: str = "mend the file: docs/how-to/sweep.md has an example") -> UserError:
    return UserError(f"cannot read the manifest {path}", because=why, fix=fix, reference="manifest-unreadable")
