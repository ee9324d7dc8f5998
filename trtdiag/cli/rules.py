"""``trtdiag rules`` and ``trtdiag explain``."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from trtdiag.cli.option_groups import debug_option
from trtdiag.cli.output_paths import check_reports, report_places
from trtdiag.cli.report_files import json_file, printed_json_option, write_json
from trtdiag.cli.value_checks import CheckedCommand

_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}


@click.command(cls=CheckedCommand)
@click.argument("rule")
@debug_option
def explain(rule: str) -> None:
    """Print the page of a RULE, by id or name.

    \b
    Examples:
      trtdiag explain GRD301
      trtdiag explain guard-breaks-range
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    from trtdiag.analysis.registry import page  # the facts that rules name need torch, which takes seconds

    click.echo(page(rule), nl=False)


@click.command(cls=CheckedCommand)
@printed_json_option
@debug_option
def rules(json_path: str | None) -> None:
    """List every rule.

    \b
    Examples:
      trtdiag rules                        id, name, severity, what it finds
      trtdiag rules --json rules.json
    """  # noqa: D301  as above
    files = json_file(json_path)
    check_reports([], report_places(files))
    from trtdiag.analysis import registry  # as above

    entries = registry.rules()
    if json_path is not None:
        listed = [{"id": e.id, "name": e.name, "severity": e.severity.value, "title": e.title} for e in entries]
        write_json(files, json.dumps(listed, indent=2) + "\n", "list")
        return
    name = Column("name", overflow="fold")  # one that is cut cannot be given to explain
    table = Table("id", name, "severity", "finds", box=None, pad_edge=False)
    for entry in entries:
        severity = Text(entry.severity.value, style=_STYLES[entry.severity.value])
        table.add_row(entry.id, entry.name, severity, Text(entry.title))
    Console(soft_wrap=False).print(table)
