"""``trtdiag verify``."""

from __future__ import annotations

import click
from rich.console import Console

from trtdiag.cli.analyze import import_module
from trtdiag.cli.last_words import last_words
from trtdiag.cli.progress import step_line
from trtdiag.cli.report_files import ReportFiles, json_option


@click.command("verify")
@click.argument("compiled")
@click.option("--against", metavar="SOURCE", help="The original  [default: the file that it was compiled from]")
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="Import first: a package of custom ops.")
@click.option("--point-s", type=float, default=120.0, show_default=True, help="Skip points that would take longer.")
@json_option
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def verify_command(
    compiled: str,
    against: str | None,
    imports: tuple[str, ...],
    point_s: float,
    json_path: str | None,
    quiet: bool,
    debug: bool,
) -> int:
    """Compare COMPILED with its original at the example, at the corners of all ranges, and in between.

    Exit code 1 where an output differs, the first engine and op whose output differs being named, and where no point
    could be compared.
    """
    del debug  # read by main
    with step_line() as shown, last_words(shown) as step:
        step("load torch")
        for name in imports:
            import_module(name)
        from trtdiag.report.compile_text import verification_text  # torch takes seconds: --help should not wait for it
        from trtdiag.verify.run import VerifyLimits
        from trtdiag.verifying import verify_saved

        found = verify_saved(compiled, against, progress=step, limits=VerifyLimits(seconds=point_s))
    ReportFiles(() if json_path is None else (("json", json_path),)).write(found.report)
    if not quiet and json_path != "-":
        Console().print(verification_text(found.verification, found.report.analysis.program.names))
    return 0 if found.verification.passed else 1
