"""``trtdiag report``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trtdiag.cli.crash_reporter import last_words
from trtdiag.cli.default_names import name_after
from trtdiag.cli.option_groups import debug_option, output_options, with_options
from trtdiag.cli.output_paths import check_reports, read_by, report_places
from trtdiag.cli.progress import LOADING, step_line
from trtdiag.cli.report_files import REPORT_OPTIONS, asked_files
from trtdiag.cli.streams import own_console
from trtdiag.cli.value_checks import CheckedCommand, OutputFile, Place
from trtdiag.files.same_file import Named


@click.command("report", cls=CheckedCommand)
@click.argument("saved", type=Place(path_type=Path))
@click.option("-o", "--output", type=OutputFile(path_type=Path), help="The HTML report  [default: <saved>.html here]")
@with_options(REPORT_OPTIONS)
@output_options
@debug_option
def report_command(saved: Path, output: Path | None, quiet: bool, **rest: Any) -> int:
    """Write a report again from SAVED, a JSON report, in any format; the model is not needed.

    With --compare it says what changed between two saved reports.

    \b
    Examples:
      trtdiag report model.json --sarif model.sarif
      trtdiag report new.json --compare old.json
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    files = asked_files(rest, output, Path(f"{name_after(str(saved))}.html"))
    check_reports([Named("SAVED", str(saved)), *read_by([("--compare", files.compare)])], report_places(files))
    with step_line() as shown, last_words(shown) as step:
        step(LOADING)
        from trtdiag.analysis.registry import rules  # torch takes seconds: --help should not wait for it
        from trtdiag.report.saved import read_report
        from trtdiag.report.terminal import page_summary

        report = read_report(saved, rules())
        if files.compare is not None:
            report = report.compare(files.compare)
        step("report")
        written = files.write(report)
    if not quiet and not files.to_stdout:
        own_console().print(page_summary(report.rendering.view, written))
    return 0
