"""``trtdiag rebuild``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trtdiag.cli.compile import caches
from trtdiag.cli.config import read_config
from trtdiag.cli.default_names import name_after
from trtdiag.cli.engine_options import BUILD_OPTIONS, GPU_OPTION
from trtdiag.cli.option_groups import BACKENDS, chosen, debug_option, one_of, output_options, with_options
from trtdiag.cli.output_paths import compiled_place, file_and_size, read_by
from trtdiag.cli.progress import step_line
from trtdiag.cli.streams import own_console
from trtdiag.cli.trace_option import trace_option, trace_places
from trtdiag.cli.user_code_options import working
from trtdiag.cli.value_checks import CheckedCommand, OutputFile
from trtdiag.files.same_file import Named, refuse_same
from trtdiag.options import CompileOptions


@click.command("rebuild", cls=CheckedCommand)
@click.argument("compiled")
@click.option("-o", "--output", type=OutputFile(path_type=Path), help="The program  [default: <compiled>_rebuilt.pt2]")
@with_options({"backend": one_of(BACKENDS, "[default: the one that COMPILED was compiled with]")})
@click.option("--target", metavar="VERSION", help="TensorRT version to build for  [default: that of the networks]")
@with_options({**GPU_OPTION, **BUILD_OPTIONS})
@trace_option
@output_options
@debug_option
def rebuild_command(
    compiled: str,
    output: Path | None,
    backend: str | None,
    target: str | None,
    quiet: bool,
    **rest: Any,
) -> int:
    """Build the engines of COMPILED again on this machine, from the networks that compile --portable kept.

    The model is not needed.  Sizes and all that the networks compute stay; options about building are those of
    COMPILED where they are not given.

    \b
    Examples:
      trtdiag rebuild model_trt.pt2
      trtdiag rebuild model_trt.pt2 --target 10.16 -o model_10.pt2
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    config = read_config(Path.cwd())
    changes = chosen({**GPU_OPTION, **BUILD_OPTIONS}, config, rest)
    if not changes.get("gpu"):  # an empty list of the file says nothing
        changes.pop("gpu", None)
    usual = Path(f"{name_after(compiled)}_rebuilt.pt2")
    destination = output or usual
    place = compiled_place(output, usual)
    reads = read_by([("COMPILED", compiled)], configured=True)
    refuse_same(reads, [place, *caches(CompileOptions(**changes)), *trace_places()])
    with working(step_line(), reports=False) as step:
        from trtdiag.artifact.load import load_anywhere  # torch takes seconds: --help should not wait for it
        from trtdiag.artifact.rebuild import rebuild
        from trtdiag.artifact.save import save

        step("load")
        program = load_anywhere(compiled)
        refuse_same([Named("the original of COMPILED", program.source or "")], [place])
        made = rebuild(program, backend, target=target, progress=step, **changes)
        step("save")
        save(made, destination)
    if not quiet:
        console = own_console()
        for index, manifest in enumerate(made.manifests):
            built = f"engine {index}: {manifest.backend} for {manifest.target}"
            console.print(built, highlight=False, markup=False, soft_wrap=True)
        console.print(f"rebuilt: {file_and_size(destination)}", highlight=False, markup=False, soft_wrap=True)
    return 0
