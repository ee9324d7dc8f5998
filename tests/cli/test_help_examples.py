"""The examples in the help of commands: every command has some, and its parser takes them."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from trtdiag.cli.commands import cli


def _examples(command: click.Command) -> list[str]:
    _, _, block = (command.help or "").partition("Examples:")
    return re.findall(r"trtdiag (.+?)(?:  | [|>]|$)", block, re.MULTILINE)


@pytest.mark.parametrize("name", sorted(cli.list_commands(click.Context(cli))))
def test_a_command_takes_its_examples(name: str) -> None:
    context = click.Context(cli)
    command = cli.get_command(context, name)
    assert command is not None
    found = _examples(command)
    assert found
    for example in found:
        assert len(f"  trtdiag {example}") <= 80, "an example is not wrapped"
        called, *arguments = shlex.split(example)
        assert called == name
        _, rest, _ = command.make_parser(click.Context(command, info_name=name)).parse_args(arguments)
        assert rest == []


@pytest.mark.parametrize("name", sorted(cli.list_commands(click.Context(cli))))
def test_help_fits_a_terminal_of_80_columns(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    told = command.get_help(click.Context(command, info_name=f"trtdiag {name}", terminal_width=80))
    assert [line for line in told.splitlines() if len(line) > 80] == []
