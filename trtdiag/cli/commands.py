"""The group of the commands."""

from __future__ import annotations

from collections.abc import MutableMapping
from importlib import import_module

import click

import trtdiag

_PLACES = {
    "analyze": "analyze:analyze",
    "bench": "bench:bench_command",
    "compile": "compile:compile_command",
    "completion": "completion:completion",
    "explain": "rules:explain",
    "export-engine": "export_engine:export_engine_command",
    "export-triton": "export_triton:export_triton_command",
    "fix-dims": "fix_dims:fix_dims",
    "ops": "ops:ops",
    "rebuild": "rebuild:rebuild_command",
    "refit": "refit:refit_command",
    "report": "report:report_command",
    "rules": "rules:rules",
    "sweep": "sweep:sweep_command",
    "verify": "verify:verify_command",
}
"""The module of each command, and its name there."""


class _Commands(click.Group):
    """Imports a command when it is asked for: one needs little of what the others import."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Give one command."""
        return _command(cmd_name) if cmd_name in _PLACES else None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names of all."""
        return list(_PLACES)

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        """All by name."""
        return {name: _command(name) for name in _PLACES}

    @commands.setter
    def commands(self, given: MutableMapping[str, click.Command]) -> None:
        assert not given  # click gives none at first


def _command(name: str) -> click.Command:
    module, _, attribute = _PLACES[name].partition(":")
    found = getattr(import_module(f"trtdiag.cli.{module}"), attribute)
    assert isinstance(found, click.Command)
    return found


def _version(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    """Answer ``--version``; reading it takes a tenth of the start of every other command."""
    del param
    if asked:
        click.echo(f"trtdiag, version {trtdiag.__version__}")
        ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
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
