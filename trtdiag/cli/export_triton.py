"""``trtdiag export-triton``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trtdiag.cli.default_names import name_after
from trtdiag.cli.option_groups import debug_option, output_options
from trtdiag.cli.output_paths import read_by
from trtdiag.cli.progress import step_line
from trtdiag.cli.streams import own_console
from trtdiag.cli.trace_option import trace_option, trace_places
from trtdiag.cli.user_code_options import users_options, working
from trtdiag.cli.value_checks import CheckedCommand, Count, Place
from trtdiag.files.same_file import refuse_same
from trtdiag.wording import visible

if TYPE_CHECKING:
    from trtdiag.deployment.triton import TritonExport


@click.command("export-triton", cls=CheckedCommand)
@click.argument("compiled", nargs=-1, required=True)
@click.argument("repository", type=Place(path_type=Path))
@click.option("--name", help="The name of the model  [default: that of the first COMPILED]")
@click.option("--version", type=Count(1), metavar="N", help="Its version  [default: one after those there]")
@click.option(
    "--max-batch-size",
    type=Count(0),
    metavar="N",
    help="0: no batches  [default: what COMPILED takes, where its samples are proven to be apart]",
)
@click.option(
    "--instances",
    type=Count(1),
    default=1,
    show_default=True,
    metavar="N",
    help="How many run side by side, on each GPU.",
)
@click.option(
    "--dynamic-batching",
    type=Count(0),
    metavar="MICROSECONDS",
    help="Put requests together, and wait for others this long.",
)
@click.option("--no-warm-up", is_flag=True, help="Else the server runs the corners of all ranges when it loads.")
@click.option("--keep-config", is_flag=True, help="Leave a config.pbtxt that is there as it is.")
@click.option("--force", is_flag=True, help="Replace a version and a config.pbtxt that are there.")
@users_options
@trace_option
@output_options
@debug_option
def export_triton_command(
    compiled: tuple[str, ...],
    repository: Path,
    name: str | None,
    no_warm_up: bool,
    imports: tuple[str, ...],
    quiet: bool,
    **options: Any,
) -> int:
    """Write COMPILED into REPOSITORY as a model of Triton Inference Server.

    \b
    A program that is one engine of TensorRT becomes a tensorrt_plan; give one
    COMPILED for each compute capability.  Any other one is run by Triton's
    Python backend, whose Python needs trtdiag.

    \b
    Examples:
      trtdiag export-triton model_trt.pt2 repository/ --name resnet
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    refuse_same(read_by([("COMPILED", each) for each in compiled], imports), trace_places())
    with working(step_line(), imports, reports=False) as step:
        from trtdiag.deployment.triton import export_triton  # torch takes seconds: --help should not wait for it

        step("export")
        made = export_triton(
            list(compiled),
            repository,
            name or name_after(compiled[0]),
            warm_up=not no_warm_up,
            imports=imports,
            **options,
        )
    if not quiet:
        console = own_console()
        for line in _told(made):
            console.print(visible(line), highlight=False, markup=False, soft_wrap=True)
    return 0


def _told(made: TritonExport) -> list[str]:
    """What was written, in lines."""
    runs = "a plan of TensorRT" if made.runs == "tensorrt_plan" else f"for the Python backend: {made.why}"
    lines = [f"{made.folder}: {runs}", f"max_batch_size {made.max_batch_size}: {made.batch}"]
    return [*lines, *(f"note: {note}" for note in made.notes)]
