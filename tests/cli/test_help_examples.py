"""The examples in the help of commands: every command has some, and its parser takes them."""

from __future__ import annotations

import re
import shlex
from typing import Any

import click
import pytest

from trtdiag.cli.commands import cli
from trtdiag.cli.value_checks import Count, Seconds


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


@pytest.mark.parametrize("name", sorted(cli.list_commands(click.Context(cli))))
def test_help_writes_no_limits_as_formulas(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    told = command.get_help(click.Context(command, info_name=f"trtdiag {name}", terminal_width=80))
    assert re.findall(r"\bx *[<>]=?|<=x\b", told) == []


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        (Count(1, 16), "17", "17 is more than 16"),
        (Count(1), "0", "0 is less than 1"),
        (Count(0), "3000000000", "more than 2,147,483,647"),
        (Count(0), "1.5", "'1.5' is not a valid integer"),
        (Seconds(1), "0.5", "0.5 is less than 1"),
        (Seconds(), "0", "0 is not more than 0"),
        (Seconds(0), "inf", "'inf' is no number that can be used"),
        (Seconds(0), "nan", "'nan' is no number that can be used"),
    ],
)
def test_numbers_beyond_a_limit_are_refused_with_it(kind: Any, value: str, why: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        kind.convert(value, None, None)
    assert why in refused.value.message
