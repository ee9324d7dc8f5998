"""``trtdiag bench``."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from trtdiag.cli.analyze import import_module
from trtdiag.cli.progress import step_line
from trtdiag.cli.words import listed, sizes_of
from trtdiag.report.save import write_atomically


@click.command("bench")
@click.argument("compiled")
@click.option(
    "--against",
    multiple=True,
    metavar="WAY",
    help="eager, inductor, onnx-trt, cuda-graphs; several with commas  [default: eager]",
)
@click.option("--model", metavar="SOURCE", help="The original  [default: the file that it was compiled from]")
@click.option(
    "--sizes",
    multiple=True,
    metavar="min|opt|max|DIM=SIZE",
    help="Where to time, each in a table; DIM=SIZE,DIM=SIZE for one of your own  [default: opt]",
)
@click.option("--rounds", type=click.IntRange(min=1), default=8, show_default=True, help="How often ways take turns.")
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="Import first: a package of custom ops.")
@click.option("--json", "json_path", metavar="PATH", help="Also write it as JSON; - for standard output.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def bench_command(
    compiled: str,
    against: tuple[str, ...],
    model: str | None,
    sizes: tuple[str, ...],
    rounds: int,
    imports: tuple[str, ...],
    json_path: str | None,
    quiet: bool,
    debug: bool,
) -> int:
    """Time COMPILED beside other ways to run its original, in turns in one run.

    A way that cannot run here is a row that says why.
    """
    del debug  # read by main
    with step_line() as step:
        step("load torch")
        for name in imports:
            import_module(name)
        from trtdiag.benching.run import Sizes, bench  # torch takes seconds: --help should not wait for it
        from trtdiag.benching.table import bench_text

        asked: list[Sizes] = [dict(sizes_of((each,))) if "=" in each else each for each in sizes]
        found = bench(
            compiled, listed(against) or ("eager",), model=model, sizes=asked or "opt", rounds=rounds, progress=step
        )
    if json_path == "-":
        sys.stdout.write(found.to_json())
    elif json_path is not None:
        write_atomically(Path(json_path), found.to_json())
    if not quiet and json_path != "-":
        Console().print(bench_text(found))
    return 0
