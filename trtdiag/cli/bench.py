"""``trtdiag bench``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from trtdiag.cli.option_groups import Options, debug_option, output_options, several, with_options
from trtdiag.cli.output_paths import check_reports, read_by, report_places
from trtdiag.cli.progress import step_line
from trtdiag.cli.renamed_options import RenamedOption, typed_name
from trtdiag.cli.report_files import json_file, json_option, write_json
from trtdiag.cli.streams import own_console
from trtdiag.cli.trace_option import trace_option
from trtdiag.cli.user_code_options import users_options, working
from trtdiag.cli.value_checks import CheckedCommand, Count, OutputFile, listed, sizes_of, told_at_the_end
from trtdiag.files.same_file import Named, refuse_same

_OPTIONS: Options = {
    "against": several("WAY", "eager, inductor, onnx-trt, cuda-graphs; several with commas  [default: eager]"),
    "model": {"metavar": "SOURCE", "help": "The original  [default: the file that it was compiled from]"},
    "sizes": several(
        "min|opt|max|DIM=SIZE",
        "Where to time, each in a table; DIM=SIZE,DIM=SIZE for one of your own  [default: opt]",
    ),
}


@click.command("bench", cls=CheckedCommand)
@click.argument("compiled")
@with_options(_OPTIONS)
@click.option("--rounds", type=Count(1), default=8, show_default=True, help="How often ways take turns.")
@users_options
@json_option("Also write it as JSON; - for standard output.")
@click.option(
    "--add-to-report",
    "report_path",
    cls=RenamedOption,
    old="--report",
    type=OutputFile(path_type=Path),
    metavar="JSON",
    help="Add the times to this --json report of COMPILED, and write its page again, beside it.",
)
@trace_option
@output_options
@debug_option
def bench_command(
    compiled: str,
    against: tuple[str, ...],
    model: str | None,
    sizes: tuple[str, ...],
    rounds: int,
    imports: tuple[str, ...],
    json_path: str | None,
    report_path: Path | None,
    quiet: bool,
) -> int:
    """Time COMPILED beside other ways to run its original, in turns in one run.

    A way that cannot run here is a row that says why.

    \b
    Examples:
      trtdiag bench model_trt.pt2 --against eager,inductor
      trtdiag bench model_trt.pt2 --sizes batch=1 --json times.json
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    times = json_file(json_path)
    writes = report_places(times)
    if report_path is not None:
        added_to = typed_name("--add-to-report")
        writes += [Named(added_to, str(report_path)), Named(f"the page of {added_to}", str(page_of(report_path)))]
    check_reports(read_by([("COMPILED", compiled), ("--model", model)], imports), writes)
    with working(step_line(), imports, reports=times.to_stdout) as step:
        from trtdiag.artifact.load import load  # torch takes seconds: --help should not wait for it
        from trtdiag.benchmark.original import ENDS
        from trtdiag.benchmark.table import bench_text
        from trtdiag.pipeline.bench import Sizes, bench
        from trtdiag.report.saved import read_report

        others = f"{', '.join(ENDS)}, or "
        asked: list[Sizes] = [each if each in ENDS else dict(sizes_of((each,), "--sizes", others)) for each in sizes]
        step("load")
        program = load(compiled)
        refuse_same([Named("the original of COMPILED", program.source or "")], writes)
        report = None if report_path is None else read_report(report_path)
        if report is not None:  # before minutes of measuring
            report.check_networks([manifest.network_hash for manifest in program.manifests])
        found = bench(
            program, listed(against) or ("eager",), model=model, sizes=asked or "opt", rounds=rounds, progress=step
        )
    write_json(times, found.to_json(), "report")
    written: list[Path] = []
    if report is not None and report_path is not None:
        timed = report.with_times(found.as_json())
        with told_at_the_end():
            written = [timed.save(report_path), timed.save(page_of(report_path))]
    if not quiet and not times.to_stdout:
        own_console().print(bench_text(found, own_console().width))
        if written:
            own_console().print(Text(f"timed: {', '.join(map(str, written))}"))
    return 0


def page_of(report: Path) -> Path:
    """Where the page of a JSON report goes: beside it."""
    return report.with_suffix(".html")
