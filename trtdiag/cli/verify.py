"""``trtdiag verify``."""

from __future__ import annotations

import click

from trtdiag.cli.option_groups import debug_option, output_options, verify_limit_option
from trtdiag.cli.output_paths import check_reports, read_by, report_places
from trtdiag.cli.progress import step_line
from trtdiag.cli.renamed_options import RenamedOption, typed_name
from trtdiag.cli.report_files import json_file, json_option
from trtdiag.cli.streams import own_console
from trtdiag.cli.trace_option import trace_option
from trtdiag.cli.user_code_options import users_options, working
from trtdiag.cli.value_checks import CheckedCommand, Seconds
from trtdiag.files.same_file import Named, refuse_same


@click.command("verify", cls=CheckedCommand)
@click.argument("compiled")
@click.option(
    "--model",
    cls=RenamedOption,
    old="--against",
    metavar="SOURCE",
    help="The original  [default: the file that it was compiled from]",
)
@users_options
@click.option(
    "--point-s", type=Seconds(0), default=120.0, show_default=True, help="Skip points that would take longer."
)
@verify_limit_option
@json_option("Also write the report as JSON; - for standard output.")
@trace_option
@output_options
@debug_option
def verify_command(
    compiled: str,
    model: str | None,
    imports: tuple[str, ...],
    point_s: float,
    verify_limit_s: float | None,
    json_path: str | None,
    quiet: bool,
) -> int:
    """Compare COMPILED with its original at the example, at the corners of all ranges, and in between.

    Cheap ones come first; what does not fit into --verify-limit is told.  Exit code 1 where an output differs, the
    first engine and op whose output differs being named, and where no point could be compared.

    \b
    Examples:
      trtdiag verify model_trt.pt2
      trtdiag verify model_trt.pt2 --model model.pt2 --verify-limit 0
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    files = json_file(json_path)
    reads = read_by([("COMPILED", compiled), (typed_name("--model"), model)], imports)
    check_reports(reads, report_places(files))
    with working(step_line(), imports, reports=files.to_stdout) as step:
        from trtdiag.artifact.load import load  # torch takes seconds: --help should not wait for it
        from trtdiag.pipeline.verify import verify_saved
        from trtdiag.report.compile_text import verification_text
        from trtdiag.verification.limits import VerifyLimits

        limits = VerifyLimits(seconds=point_s, total_s=verify_limit_s)
        step("load")
        program = load(compiled)
        refuse_same([Named("the original of COMPILED", program.source or "")], report_places(files))
        found = verify_saved(program, model, progress=step, limits=limits)
    files.write(found.report)
    if not quiet and not files.to_stdout:
        own_console().print(verification_text(found.verified, found.report.analysis.program.words), crop=False)
    return 0 if found.verified.passed else 1
