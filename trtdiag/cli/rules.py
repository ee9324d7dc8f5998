"""``trtdiag rules`` and ``trtdiag explain``."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trtdiag.cli.values import CheckedCommand

_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}


@click.command(cls=CheckedCommand)
@click.argument("rule")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def explain(rule: str, debug: bool) -> None:
    """Print the page of a RULE, by id (GRD301) or name (guard-breaks-range)."""
    del debug  # read by main
    from trtdiag.analysis.explain import page  # the facts that rules name need torch, which takes seconds

    click.echo(page(rule), nl=False)


@click.command(cls=CheckedCommand)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def rules(as_json: bool, debug: bool) -> None:
    """List every rule."""
    del debug  # read by main
    from trtdiag.analysis.explain import catalogue  # as above

    entries = catalogue()
    if as_json:
        listed = [{"id": e.id, "name": e.name, "severity": e.severity.value, "title": e.title} for e in entries]
        click.echo(json.dumps(listed, indent=2))
        return
    table = Table("id", "name", "severity", "finds", box=None, pad_edge=False)
    for entry in entries:
        severity = Text(entry.severity.value, style=_STYLES[entry.severity.value])
        table.add_row(entry.id, entry.name, severity, Text(entry.title))
    Console(soft_wrap=False).print(table)
