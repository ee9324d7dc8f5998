"""The command line, from its own definition."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click
from words import fenced, in_cell, plain

from trtdiag.cli.commands import cli


def pages() -> dict[str, str]:
    """The page by its place."""
    lines = ["# Command line", "", *_described(cli), ""]
    context = click.Context(cli, info_name="trtdiag")
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        lines += [f"## trtdiag {name}", "", *_command(command, click.Context(command, info_name=name, parent=context))]
    return {"reference/commands.md": "\n".join(lines) + "\n"}


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield fenced(f"trtdiag {command.name} {' '.join(command.collect_usage_pieces(context))}", "console")
    yield ""
    yield from _described(command)
    yield from ("| option | |", "|---|---|")
    for option in command.get_params(context):
        record = option.get_help_record(context)
        if record is not None and isinstance(option, click.Option):  # arguments stand in the line above
            words, text = record
            yield f"| `{words.replace('|', chr(92) + '|')}` | {in_cell(text)} |"
    yield ""


def _described(command: click.Command) -> Iterator[str]:
    """The help text; a paragraph that begins with a backspace keeps its lines."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        kept = paragraph.startswith("\b")
        yield fenced(paragraph[1:]) if kept else plain(paragraph)
        yield ""
