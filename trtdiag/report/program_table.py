"""The files of several programs, and the table of which size goes where: read without torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trtdiag.arguments import checked, path, whole
from trtdiag.errors import ArtifactError, ShapeOutOfRangeError, UserError
from trtdiag.files.bounded_read import read_whole, reason
from trtdiag.files.destination import is_written_through
from trtdiag.report.schema_check import Schema, fitted, read_schema
from trtdiag.report.strict_json import JsonFault, parse_json
from trtdiag.symbolic import ExpressionError, free_symbols, holds, parse_condition

PROGRAMS_SCHEMA = "trtdiag-programs/1"
TABLE_SUFFIX = ".programs.json"
_SCHEMA_PATH = Path(__file__).parent / "schema" / "programs-1.schema.json"
_UNFINISHED = "unfinished"
_MOST_BYTES = 1 << 24
_SEPARATORS = frozenset("/\\:\0")
"""No name of a file has them, on Windows or elsewhere."""
_NAMES: Schema = {"type": "object", "properties": {_UNFINISHED: {"type": "array", "items": {"type": "string"}}}}
"""What is read of what stands in its place while its programs are put there."""


def program_paths(path: Path, count: int) -> tuple[Path, ...]:
    """``fixed.pt2``, ``fixed-2.pt2``, ...: where programs go, the first one to ``path`` itself."""
    return (path, *(path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(2, count + 1)))


def table_path(path: Path) -> Path:
    """``fixed.programs.json`` beside ``fixed.pt2``."""
    return path.with_name(path.stem + TABLE_SUFFIX)


def may_write_programs(path: Path, count: int) -> None:
    """Refuse to write over a numbered file that no table of ours names; the first one is named by the user himself.

    Raises:
        UserError: One of them is there, or the first one goes to a device or a pipe, beside which there are no others.
    """
    if count > 1 and is_written_through(path):
        raise UserError(
            f"several programs cannot be written to {path}",
            because="it is a device or a pipe, and they go to files beside each other",
            fix="name a file, or ask for one program: --programs 1",
            reference="programs-need-files",
        )
    ours = _named_in(table_path(path))
    for place in program_paths(path, count)[1:]:
        if place.exists() and place.name not in ours:
            raise UserError(
                f"{place} exists",
                because=f"several programs go to files named after {path.name}, and no table says that it is one",
                fix="name another file, or move that one; --programs 1 saves one program only",
                reference="file-exists",
            )


def unfinished_table(path: Path, count: int) -> dict[str, Any]:
    """What stands in the place of the table while its programs are put there: names without conditions.

    A run that is killed then leaves files that are known as ours, and a table that sends no sizes to them.
    """
    names = sorted({*_named_in(table_path(path)), *(place.name for place in program_paths(path, count))})
    return {"schema": PROGRAMS_SCHEMA, _UNFINISHED: names}


def _named_in(table: Path) -> set[str]:
    try:
        content = _content(table)
        return {*content.get(_UNFINISHED, ()), *(program["file"] for program in content.get("programs", ()))}
    except ArtifactError:
        return set()


@checked(table=path)
def program_for(table: str | Path, **sizes: int) -> Path:
    """The file of the first program that takes these sizes.

    Args:
        table: As written by ``--apply`` or ``save_programs`` (``fixed.programs.json``).
        sizes: By the names in the table: ``h=136, w=144``.

    Raises:
        ArtifactError: The table cannot be read.
        UserError: A size is no whole number or missing, or one is named that the table does not have.
        ShapeOutOfRangeError: No program takes these sizes.
    """
    path = Path(table)
    sizes = {name: whole()(name, size) for name, size in sizes.items()}
    content = _content(path)
    if _UNFINISHED in content:
        raise _unreadable(path, "the run that wrote its programs was stopped half-way")
    names = [size["name"] for size in content["sizes"]]
    if set(names) != sizes.keys():
        known = ", ".join(f"{size['name']} ({size['site']})" for size in content["sizes"])
        raise UserError(
            f"the sizes {', '.join(sorted(sizes)) or '(none)'} do not name a program",
            because=f"the table has {known}",
            fix=f"give program_for(table, {', '.join(f'{name}=...' for name in names)})",
            reference="table-sizes",
        )
    for program in content["programs"]:
        if _takes(program["takes"], sizes, path):
            return path.with_name(program["file"])
    raise ShapeOutOfRangeError(
        f"no program takes {', '.join(f'{name} = {sizes[name]}' for name in names)}",
        because="the programs take " + "; ".join(program["takes"] for program in content["programs"]),
        fix="give sizes that one of them takes, or pad the inputs",
        reference="no-program-for-sizes",
    )


def _takes(text: str, sizes: Mapping[str, int], path: Path) -> bool:
    try:
        condition = parse_condition(text)
        if not free_symbols(condition) <= sizes.keys():
            raise _unreadable(path, f"{text!r} names a size that the table does not have")
        return holds(condition, sizes)
    except ExpressionError as error:
        raise _unreadable(path, str(error)) from error


def _content(path: Path) -> dict[str, Any]:
    try:
        content = parse_json(read_whole(path, _MOST_BYTES))
        if not isinstance(content, dict) or content.get("schema") != PROGRAMS_SCHEMA:
            raise _unreadable(path, f"its schema is not {PROGRAMS_SCHEMA}")
        found: dict[str, Any] = fitted(content, _NAMES if _UNFINISHED in content else read_schema(_SCHEMA_PATH))
    except OSError as error:
        raise _unreadable(path, reason(error)) from error
    except JsonFault as fault:
        raise _unreadable(path, str(fault)) from fault
    for program in found.get("programs", ()):
        # A program lies beside its table: a table from elsewhere must not lead to another file of this machine.
        if program["file"] in (".", "..") or _SEPARATORS & set(program["file"]):
            raise _unreadable(path, f"{program['file']!r} is no name of a file beside it")
    return found


def _unreadable(path: Path, why: str) -> ArtifactError:
    return ArtifactError(
        f"{path} is no table of programs",
        because=why,
        fix="write it again: trtdiag fix-dims SOURCE --apply -o fixed.pt2",
        reference="table-unreadable",
    )
