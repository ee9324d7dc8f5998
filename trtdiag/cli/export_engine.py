"""``trtdiag export-engine``."""

from __future__ import annotations

from pathlib import Path

import click

from trtdiag.cli.option_groups import debug_option, output_options
from trtdiag.cli.output_paths import read_by
from trtdiag.cli.progress import step_line
from trtdiag.cli.streams import own_console
from trtdiag.cli.trace_option import trace_option, trace_places
from trtdiag.cli.user_code_options import users_options, working
from trtdiag.cli.value_checks import CheckedCommand, Place
from trtdiag.files.same_file import refuse_same
from trtdiag.wording import visible


@click.command("export-engine", cls=CheckedCommand)
@click.argument("compiled")
@click.argument("folder", type=Place(path_type=Path))
@click.option("--force", is_flag=True, help="Replace files that are there.")
@users_options
@trace_option
@output_options
@debug_option
def export_engine_command(compiled: str, folder: Path, force: bool, imports: tuple[str, ...], quiet: bool) -> int:
    """Write the engines of COMPILED into FOLDER as plans of TensorRT, for C++.

    engines.json beside them says what each takes and gives, for which sizes, and where it runs.

    \b
    Examples:
      trtdiag export-engine model_trt.pt2 engines/
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    refuse_same(read_by([("COMPILED", compiled)], imports), trace_places())
    with working(step_line(), imports, reports=False) as step:
        from trtdiag.deployment.engines import TOLD, export_engine  # torch takes seconds: --help should not wait for it

        step("export")
        made = export_engine(compiled, folder, force=force)
    if not quiet:
        lines = [f"{made.folder / name} ({size:,} bytes)" for name, size in made.files.items()]
        lines.append(f"{made.folder / TOLD}: what they take and give")
        if made.beside:
            lines.append(f"note: the engines are not all of the program: {made.beside}")
        console = own_console()
        for line in lines:
            console.print(visible(line), highlight=False, markup=False, soft_wrap=True)
    return 0
