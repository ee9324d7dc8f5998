"""The group of the commands."""

from __future__ import annotations

import click

import trtdiag
from trtdiag.cli.analyze import analyze
from trtdiag.cli.bench import bench_command
from trtdiag.cli.compile import compile_command
from trtdiag.cli.completion import completion
from trtdiag.cli.export_engine import export_engine_command
from trtdiag.cli.export_triton import export_triton_command
from trtdiag.cli.fix_dims import fix_dims
from trtdiag.cli.ops import ops
from trtdiag.cli.rebuild import rebuild_command
from trtdiag.cli.refit import refit_command
from trtdiag.cli.report import report_command
from trtdiag.cli.rules import explain, rules
from trtdiag.cli.sweep import sweep_command
from trtdiag.cli.verify import verify_command


def _version(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    """Answer ``--version``; reading it takes a tenth of the start of every other command."""
    del param
    if asked:
        click.echo(f"trtdiag, version {trtdiag.__version__}")
        ctx.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version and exit."
)
def cli() -> None:
    """Say early what breaks on the way from torch.export to TensorRT: which line, why, and what to write instead.

    \b
    Exit codes: 0 clean, 1 findings at or above --fail-on, dims to change,
    outputs that differ or nothing in an engine, 2 wrong input or platform,
    3 an engine did not build, 4 a fault of trtdiag itself, 130 interrupted,
    141 the reader of standard output has gone.
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace


for _command in (
    *(analyze, compile_command, verify_command, bench_command, rebuild_command, refit_command),
    *(fix_dims, sweep_command, export_triton_command, export_engine_command, report_command),
    *(explain, rules, ops, completion),
):
    cli.add_command(_command)
