"""``trtdiag fix-dims``."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import trtdiag
from trtdiag.cli.option_groups import debug_option, output_options
from trtdiag.cli.output_paths import check_reports, place_of, read_by, report_places
from trtdiag.cli.progress import step_line
from trtdiag.cli.renamed_options import RenamedOption, typed_name
from trtdiag.cli.report_files import ReportFiles, json_file, json_option, write_json
from trtdiag.cli.streams import own_console
from trtdiag.cli.trace_option import trace_option
from trtdiag.cli.user_code_options import meta_option, model_options, named_source, users_options, working
from trtdiag.cli.value_checks import CheckedCommand, Count, OutputFile, seconds_option, sizes_of, told_at_the_end
from trtdiag.errors import DimsError, TrtdiagError, UserError
from trtdiag.files.bounded_read import reason
from trtdiag.files.destination import is_written_through
from trtdiag.files.same_file import refuse_same
from trtdiag.option_warnings import OptionWarning
from trtdiag.wording import first_line

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from trtdiag.fixdims.fix import Fix

_WITH_APPLY = 4  # programs, where --programs is not given
_MOST_INPUT_BYTES = 1 << 28  # as of a log in a file


@click.command("fix-dims", cls=CheckedCommand)
@click.argument("source")
@json_option("Also write the answer as JSON; - for standard output.")
@click.option("--write", "module_path", type=OutputFile(path_type=Path), metavar="PATH", help="Write a module dims.py.")
@click.option(
    "--overwrite",
    cls=RenamedOption,
    old="--force",
    is_flag=True,
    help="Let --write replace a file that trtdiag did not write.",
)
@click.option("--apply", "apply_", is_flag=True, help="Save the program exported with the answer, see -o.")
@click.option("-o", "--output", type=OutputFile(path_type=Path), help="Where --apply saves it: fixed.pt2.")
@click.option(
    "--programs",
    type=Count(1, 16),
    metavar="1..16",
    help="Up to so many programs where one leaves out asked sizes, each exported; --apply saves them all.  "
    "[default: 4 with --apply, else an offer without exports]",
)
@click.option("--max", "max_sizes", multiple=True, metavar="DIM=SIZE", help="The greatest size of a dim to declare.")
@seconds_option("--time-limit", "limit_s", default=600.0, words="For one export.")
@seconds_option(
    "--solve-limit", "solve_limit_s", default=60.0, words="For all solving and checking together; then the best found."
)
@model_options
@meta_option
@users_options
@trace_option
@output_options
@debug_option
def fix_dims(**given: Any) -> int:
    """Correct the dynamic_shapes of SOURCE, prove them, and export again with them.

    \b
    SOURCE is one of:
      package.module:factory   gives (module, args, kwargs, dynamic_shapes)
      path/to/file.py:Net      gives a module, with --inputs x=1..8x3x224x224
      llama/                   a folder of Hugging Face; a config.json is enough
      model.pt2, model.ep      an exported program
      error.log, or -          the text of a failed export; - is standard input

    Exit codes: 0 nothing to change, or saved by --apply, where it is told whether that is proven; 1 something must
    change, nothing helps, or the program was seen to do something else than the model; 2 unreadable.

    \b
    Examples:
      trtdiag fix-dims package.unet:build
      trtdiag fix-dims package.unet:build --apply -o fixed.pt2
      python export.py 2>&1 | trtdiag fix-dims -
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    asked = _Asked(**given)
    answer = json_file(asked.json_path)
    _check_usage(asked, answer)
    text = _standard_input() if asked.source == "-" else None
    with working(step_line(), asked.imports, reports=answer.to_stdout) as step, warnings.catch_warnings():
        if asked.programs is None:  # as many as are usual: nobody asked for them
            warnings.filterwarnings("ignore", "programs=", OptionWarning)
        fix: Fix = trtdiag.fix_dims(
            named_source(asked.source, asked.inputs, meta=asked.meta, unpickle=asked.unpickle)
            if text is None
            else text,
            time_limit_s=asked.limit_s,
            max_sizes=sizes_of(asked.max_sizes, "--max"),
            solve_limit_s=asked.solve_limit_s,
            programs=asked.most,
            progress=step,
        )
        if text is not None:
            fix = replace(fix, label="standard input")
        made, refusal = _programs(fix, step) if asked.apply_ else ([], None)
    return _given_out(asked, fix, answer, made, refusal)


@dataclass(frozen=True)
class _Asked:
    """The arguments of the command."""

    source: str
    json_path: str | None
    module_path: Path | None
    overwrite: bool
    apply_: bool
    output: Path | None
    programs: int | None
    max_sizes: tuple[str, ...]
    limit_s: float
    solve_limit_s: float
    inputs: tuple[str, ...]
    unpickle: bool
    meta: bool
    imports: tuple[str, ...]
    quiet: bool

    @property
    def most(self) -> int | None:
        """How many programs there may be; ``None`` for an offer of several."""
        if self.programs is not None or not self.apply_:
            return self.programs
        return 1 if self.output is not None and is_written_through(self.output) else _WITH_APPLY


def _given_out(
    asked: _Asked, fix: Fix, answer: ReportFiles, programs: list[ExportedProgram], refusal: TrtdiagError | None
) -> int:
    """Write and print what was asked for, and give the exit code."""
    from trtdiag.fixdims.fix import Outcome
    from trtdiag.report.fix_json import json_fix
    from trtdiag.report.fix_module import save_program, write_module
    from trtdiag.report.fix_programs import write_programs
    from trtdiag.report.fix_text import print_fix
    from trtdiag.report.fix_words import doubt_words

    written: list[str] = []
    files: list[str] = []
    output, impossible = asked.output, fix.outcome is Outcome.IMPOSSIBLE
    if asked.module_path is not None:
        if impossible:
            click.echo(f"{asked.module_path} not written: there is nothing to declare", err=True)
        else:
            with told_at_the_end():
                write_module(fix, asked.module_path, force=asked.overwrite)
                written.append(f"written: {asked.module_path}")
    why = doubt_words(fix) if programs else ""
    doubt = f" (not proven: {why})" if why else ""
    with told_at_the_end():
        if output is not None and len(programs) > 1:
            *saved, table = write_programs(fix, programs, output)
            files = [path.name for path in saved]
            written += [f"saved: {path}{'' if number else doubt}" for number, path in enumerate(saved)]
            written.append(f"written: {table}")
        elif output is not None and programs:
            save_program(programs[0], output)
            written.append(f"saved: {output}{doubt}")
    written += [f"written: {path}" for path in write_json(answer, json_fix(fix), "answer")]
    if not (asked.quiet or answer.to_stdout):
        print_fix(fix, own_console(), written, files)
        if told := _next(asked, fix, programs if any(line.startswith("saved: ") for line in written) else []):
            click.echo(told)
    elif doubt:  # what is saved is not what it could be taken for
        click.echo(f"{output} is not proven: {why}", err=True)
    if refusal is not None:
        if not impossible and fix.source == "text":
            raise refusal
        click.echo(f"{output} not saved: {refusal.message}, {refusal.because}; {refusal.fix}", err=True)
        return 1
    failing = fix.confirmation.exported is False  # the program refuses sizes that it admits, or is not the model
    return int((fix.outcome is not Outcome.UNCHANGED or failing) and not programs)


def _next(asked: _Asked, fix: Fix, programs: list[ExportedProgram]) -> str:
    """How to go on: compile what was saved, or declare and export; empty where neither is possible or needed."""
    from trtdiag.dims.dynamic_shapes.code_text import MISSING_MAX
    from trtdiag.fixdims.fix import Outcome

    if asked.output is not None and len(programs) == 1:
        return f"next: trtdiag compile {shlex.quote(str(asked.output))}"
    if fix.outcome is not Outcome.CHANGED or fix.source == "text" or asked.apply_:
        return ""
    if MISSING_MAX in fix.code:
        return "next: give each Dim a max= (here: --max DIM=SIZE), then export again"
    return "next: declare this and export again, or add --apply -o fixed.pt2 to save the program"


def _check_usage(asked: _Asked, answer: ReportFiles) -> None:
    """Say what is wrong with the options before minutes of exports.

    Raises:
        UserError: Options that need each other are not together, or a file would be lost.
    """
    output, module_path = asked.output, asked.module_path
    wrong: tuple[str, str, str] | None = None
    if asked.apply_ and output is None:
        wrong = "--apply needs a place for the program", "-o is not given", "add -o fixed.pt2"
    elif output is not None and not asked.apply_:
        wrong = "-o without --apply saves nothing", "only --apply makes a program", "add --apply, or leave out -o"
    elif asked.overwrite and module_path is None:
        name = typed_name("--overwrite")
        wrong = f"{name} without --write does nothing", "it is about the file of --write", "add --write dims.py"
    if wrong is not None:
        message, because, fix = wrong
        raise UserError(message, because=because, fix=fix, reference="wrong-options")
    from trtdiag.report.program_table import may_write_programs, program_paths, table_path

    programs = asked.most or 1
    writes = [] if module_path is None else [place_of("--write", module_path, "dims")]
    if output is not None:
        first, *others = program_paths(output, programs)
        writes.append(place_of("-o", first, "program"))
        writes += [place_of("a further program of -o", place, "program") for place in others]
        writes += [place_of("the table of -o", table_path(output), "table")] if others else []
    refuse_same(read_by([("SOURCE", asked.source)], asked.imports), [*writes, *report_places(answer)])
    check_reports([], report_places(answer))
    if output is not None and programs > 1:
        may_write_programs(output, programs)
    if module_path is not None and not asked.overwrite and module_path.is_file():
        from trtdiag.report.fix_module import may_write

        may_write(module_path)


def _standard_input() -> str:
    """The text of standard input.

    Raises:
        UserError: There is none, or too much.
    """
    if sys.stdin is None:  # closed by whoever started the command
        raise _no_text("it is closed")
    if sys.stdin.isatty():
        click.echo("paste the error text, then end it with Ctrl-D", err=True)
    try:
        raw = sys.stdin.buffer.read(_MOST_INPUT_BYTES + 1)
    except OSError as error:
        raise _no_text(reason(error)) from error
    if len(raw) > _MOST_INPUT_BYTES or not raw.strip():
        raise _no_text("it is empty" if not raw.strip() else f"it has more than {_MOST_INPUT_BYTES >> 20} MiB")
    from trtdiag.fixdims.sources import log_text  # torch takes seconds: --help should not wait for it

    return log_text(raw, "standard input") + "\n"  # the line end marks it as a text and not a path


def _no_text(why: str) -> UserError:
    return UserError(
        "standard input holds no error text",
        because=why,
        fix="pipe the log of the failed export into it: trtdiag fix-dims - < error.log",
        reference="standard-input-unreadable",
    )


def _programs(fix: Fix, step: Callable[[str], None]) -> tuple[list[ExportedProgram], TrtdiagError | None]:
    """The programs to save, or why there are none."""
    from trtdiag.fixdims.fix import Refuted
    from trtdiag.report.fix_programs import several_exported

    if fix.confirmation.exported is False:
        because = fix.confirmation.note or "the export with it did not pass"
        other = fix.confirmation.refuted is Refuted.MODEL
        hint = (
            "where the model means that, export with --write dims.py and save it yourself" if other else "see the notes"
        )
        return [], _not_made("the answer was not confirmed", because, hint)
    step("export for --apply")
    try:
        others = fix.programs[1:] if several_exported(fix) else ()
        return [fix.program, *(program.program for program in others)], None
    except DimsError as error:
        return [], error
    except Exception as error:  # torch's own, of the same export that passed in a child process
        fix_it = "use --write and export where the model runs"
        return [], _not_made("the export with the answer failed here", first_line(error), fix_it)


def _not_made(message: str, because: str, fix: str) -> DimsError:
    return DimsError(message, because=because, fix=fix, reference="fix-without-program")
