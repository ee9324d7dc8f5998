"""Several programs of ``fix-dims`` as files, with a table of which size goes where."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from torch.export import ExportedProgram

from trtdiag import __version__
from trtdiag.arguments import checked, instance, path
from trtdiag.files.atomic_write import begin
from trtdiag.fixdims.fix import Fix
from trtdiag.fixdims.programs import routing_code
from trtdiag.report.fix_json import fix_json
from trtdiag.report.fix_module import fill_with_program, save_program
from trtdiag.report.program_table import (
    PROGRAMS_SCHEMA,
    may_write_programs,
    program_paths,
    table_path,
    unfinished_table,
)
from trtdiag.report.save import telling, write_atomically
from trtdiag.report.strict_json import Json, json_text


@checked(fix=instance(Fix, how="make one with trtdiag.fix_dims"), path=path)
def save_programs(fix: Fix, path: str | Path) -> tuple[Path, ...]:
    """Save the programs of an answer, and beside them the table of which size goes where.

    Each export runs now.  Nothing is written before the last one passed; the table is written last.

    Args:
        fix: From ``fix_dims(..., programs=4)``; of an answer with one program that one is saved, without a table.
        path: Of the first program; the others are named after it (``fixed-2.pt2``).

    Returns:
        The files, programs first, in the order of ``fix.programs``.

    Raises:
        DimsError: There is no model at hand, or the programs were offered and not exported.
        ArtifactError: torch cannot save one of them.
        UserError: The place cannot be written.
    """
    path = Path(path)
    if not several_exported(fix):
        save_program(fix.program, path)
        return (path,)
    return write_programs(fix, [fix.program, *(program.program for program in fix.programs[1:])], path)


def several_exported(fix: Fix) -> bool:
    """Whether there are several programs, each of which was exported."""
    return len(fix.programs) > 1 and all(program.exported for program in fix.programs)


def write_programs(fix: Fix, programs: Sequence[ExportedProgram], path: Path) -> tuple[Path, ...]:
    """Write programs that are exported already, then their table; the files in that order.

    Raises:
        ArtifactError: torch cannot save one of them.
        UserError: The place cannot be written.
    """
    paths, table = program_paths(path, len(programs)), table_path(path)
    may_write_programs(path, len(programs))
    content = json_text(table_json(fix, [place.name for place in paths])) + "\n"
    with ExitStack() as stack, telling(path, "programs"):
        begun = [stack.enter_context(begin(place)) for place in paths]
        for writing, program in zip(begun, programs, strict=True):
            fill_with_program(writing.file, program)
            writing.settle()
        # The old table would send sizes to files that are no longer what it says.
        write_atomically(table, json_text(unfinished_table(path, len(paths))) + "\n", what="table")
        for writing in begun:
            writing.put()
    write_atomically(table, content, what="table")
    return (*paths, table)


def table_json(fix: Fix, files: Sequence[str]) -> dict[str, Json]:
    """The table: the sizes that count, and for each file what it takes."""
    assert fix.several is not None
    several: Any = fix_json(fix)["several"]
    programs = zip(files, several["programs"], strict=True)
    return {
        "schema": PROGRAMS_SCHEMA,
        "tool": {"name": "trtdiag", "version": __version__},
        "label": fix.label,
        "sizes": several["sizes"],
        "programs": [
            {
                "file": file,
                **{key: program[key] for key in ("takes", "kept", "adds")},
                "example_sizes": program["plan"]["example_sizes"],
            }
            for file, program in programs
        ],
        "kept": several["kept"],
        "code": routing_code(fix.several, files),
    }
