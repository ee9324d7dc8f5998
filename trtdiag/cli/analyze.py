"""``trtdiag analyze``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trtdiag.analysis.finding import Severity
from trtdiag.cli.config import read_config, refuse_other
from trtdiag.cli.default_names import analysis_page
from trtdiag.cli.engine_options import ENGINE_OPTIONS, chosen_engine_options
from trtdiag.cli.option_groups import debug_option, output_options, with_options
from trtdiag.cli.output_paths import check_reports, read_by, report_places
from trtdiag.cli.progress import progress_bar
from trtdiag.cli.report_files import REPORT_OPTIONS, asked_files
from trtdiag.cli.streams import own_console
from trtdiag.cli.trace_option import trace_option
from trtdiag.cli.user_code_options import file_alone, meta_option, model_options, named_source, users_options, working
from trtdiag.cli.value_checks import CheckedCommand, OutputFile, listed, seconds_option, told_at_the_end
from trtdiag.errors import UserError
from trtdiag.frontend.deferred_compiler import defer_compiler
from trtdiag.options import BUILD_LIMIT_S, AnalyzeOptions

if TYPE_CHECKING:
    from trtdiag.report.report import Report

FAIL_ON = ("error", "warning", "info", "never")


@click.command(cls=CheckedCommand)
@click.argument("source")
@click.option("-o", "--output", type=OutputFile(path_type=Path), help="The HTML report  [default: <source>.html here]")
@with_options(REPORT_OPTIONS)
@click.option("--target", metavar="VERSION", help="TensorRT version to answer for, such as 10.16 or rtx-1.7.")
@click.option(
    "--try-build",
    is_flag=True,
    help="Hand each planned engine to the builder of TensorRT-RTX, which needs no GPU: is it built, how large is it?",
)
@seconds_option("--build-limit", "build_limit_s", default=BUILD_LIMIT_S, least=None, words="For --try-build, in all.")
@with_options(ENGINE_OPTIONS)
@model_options
@meta_option
@users_options
@click.option("--select", multiple=True, metavar="RULE", help="Only these rules: ids, beginnings of ids, names.")
@click.option("--ignore", multiple=True, metavar="RULE", help="Not these rules.")
@click.option("--github", is_flag=True, help="Print annotations for GitHub Actions, and write the job's summary.")
@click.option("--concise", is_flag=True, help="Print one line for each cause: model.py:33: error GRD301: message.")
@click.option("--fail-on", type=click.Choice(FAIL_ON), help="Exit with 1 at this severity or above  [default: error]")
@trace_option
@output_options
@debug_option
def analyze(
    source: str,
    output: Path | None,
    target: str | None,
    try_build: bool,
    build_limit_s: float,
    inputs: tuple[str, ...],
    unpickle: bool,
    meta: bool,
    imports: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    github: bool,
    concise: bool,
    fail_on: str | None,
    quiet: bool,
    **rest: Any,
) -> int:
    """Analyze SOURCE, without a GPU and without TensorRT.

    \b
    SOURCE is one of:
      model.pt2, model.ep      an exported program
      package.module:factory   gives (module, args, kwargs, dynamic_shapes)
      path/to/file.py:Net      gives a module, with --inputs x=1..8x3x224x224
      llama/                   a folder of Hugging Face; a config.json is enough

    The report of models/unet.pt2 is models.unet.html, that of package.unet:build is package.unet.build.html.

    \b
    Examples:
      trtdiag analyze model.pt2
      trtdiag analyze package.unet:build --target 10.16 --open
      trtdiag analyze net.py:Net --inputs x=1..8x3x224x224 --json net.json
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    config = read_config(Path.cwd())
    threshold = fail_on or config.get("fail-on", "error")
    refuse_other("fail-on", threshold, FAIL_ON)
    options = AnalyzeOptions(
        target=target or (None if try_build else config.get("target")),
        try_build=try_build,
        build_limit_s=build_limit_s,
        select=listed(select) or tuple(config.get("select", ())),
        ignore=listed(ignore) or tuple(config.get("ignore", ())),
        **chosen_engine_options(config, rest),
    )
    files = asked_files(rest, output, analysis_page(source))
    reads = read_by([("SOURCE", source), ("--compare", files.compare)], imports, configured=True)
    check_reports(reads, report_places(files))
    if github and files.to_stdout:
        raise UserError(
            "--github cannot be given beside a report on standard output",
            because="its annotations go there, too",
            fix="write the report to a file: --json report.json",
            reference="wrong-options",
        )
    if file_alone(source, imports, unpickle=unpickle):
        defer_compiler()
    with working(progress_bar(), imports, reports=files.to_stdout) as step:
        from trtdiag.pipeline.analyze import (
            analyze as run_analysis,  # torch takes seconds: --help should not wait for it
        )
        from trtdiag.report.github import annotation_lines, append_summary, concise_lines
        from trtdiag.report.saved import read_report
        from trtdiag.report.terminal import print_summary

        # A file that is no report is told before the work, not after it.
        earlier = None if files.compare is None else read_report(files.compare)
        asked = named_source(source, inputs, meta=meta, unpickle=unpickle)
        report = run_analysis(asked, options, progress=step)
        if earlier is not None:
            report = report.compare(earlier, name=files.compare)
        step("report")
        written = files.write(report)
        if github:
            with told_at_the_end():
                append_summary(report.to_markdown())
    if concise and not quiet and not files.to_stdout:
        for line in concise_lines(report.analysis):
            click.echo(line)
    elif not quiet and not files.to_stdout:
        again = [
            source,
            *(f"--inputs={words}" for words in inputs),
            *(["--unpickle"] if unpickle else []),
            *(["--meta"] if meta else []),
        ]
        again += [f"--import={name}" for name in imports]
        print_summary(report.analysis, own_console(), written, comparison=report.comparison, source=again)
    if github:
        for line in annotation_lines(report.analysis):
            click.echo(line)
    if report.analysis.fault is not None:  # the report has all else; a script must not take it for the whole answer
        raise report.analysis.fault
    return exit_code(report, threshold)


def exit_code(report: Report, threshold: str) -> int:
    """1 where a finding is at or above ``threshold``."""
    if threshold == "never":
        return 0
    return int(any(finding.severity.rank <= Severity(threshold).rank for finding in report.findings))
