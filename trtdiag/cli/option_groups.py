"""Options in groups: those that several commands have, and the help that shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from trtdiag.cli.config import refuse_other
from trtdiag.cli.value_checks import CheckedCommand, Count, F, Place, Seconds, listed
from trtdiag.cli.warning_output import with_kernels

Options = Mapping[str, Mapping[str, Any]]
"""What ``click.option`` takes, by the parameter that the option is named after."""
Groups = Sequence[tuple[str, Sequence[str]]]
"""A title and the names of parameters, for each group."""


BACKENDS = ("reference", "tensorrt", "tensorrt-rtx")
debug_option = click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
"""Read by ``main``."""


verify_limit_option = click.option(
    "--verify-limit",
    "verify_limit_s",
    type=Seconds(0),
    metavar="SECONDS",
    help="For comparing at all sets of sizes; 0: no limit  [default: as long as export and build took, at least 30]",
)


def output_options(command: F) -> F:
    """``--quiet`` and ``--verbose``, which ``told_warnings`` reads."""
    verbose = click.option(
        "-v",
        "--verbose",
        is_flag=True,
        expose_value=False,
        callback=_keep,
        help="Show warnings of torch and the model.",
    )
    return click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")(verbose(command))


def _keep(context: click.Context, option: click.Parameter, value: bool) -> None:
    context.meta[f"trtdiag.{option.name}"] = value
    if value:
        with_kernels()


def flag(words: str) -> Mapping[str, Any]:
    """An option without a value."""
    return {"is_flag": True, "default": None, "help": words}


def number(least: int, most: int, metavar: str, words: str) -> Mapping[str, Any]:
    """An option that is a number."""
    return {"type": Count(least, most), "metavar": metavar, "help": words}


def several(metavar: str, words: str) -> Mapping[str, Any]:
    """An option that may be given several times."""
    return {"multiple": True, "metavar": metavar, "help": words}


def path(metavar: str, words: str) -> Mapping[str, Any]:
    """An option that names a file or folder."""
    return {"type": Place(), "metavar": metavar, "help": words}


def one_of(names: Sequence[str], words: str, **how: str) -> Mapping[str, Any]:
    """An option that is one of these words."""
    return {"type": click.Choice(names), "help": words, **how}


def with_options(options: Options) -> Callable[[F], F]:
    """What adds options to a command, which gets them as arguments of their names."""

    def added(command: F) -> F:
        for name, how in reversed(list(options.items())):
            command = click.option(f"--{name.replace('_', '-')}", name, **how)(command)
        return command

    return added


def chosen(options: Options, config: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are given, else in ``[tool.trtdiag]``; ones that may be given several times as tuples.

    Args:
        options: Which.
        config: ``[tool.trtdiag]``.
        given: The command's arguments by name.

    Raises:
        UserError: ``config-wrong-value`` where the file has a word that is no choice of the option.
    """
    found = {}
    for name, how in options.items():
        key, several = name.replace("_", "-"), how.get("multiple")
        told = (listed(given[name]) or None) if several else given[name]
        told = config.get(key) if told is None else told
        if told is not None:
            if isinstance(how.get("type"), click.Choice):
                refuse_other(key, told, how["type"].choices)
            found[name] = tuple(told) if several else told
    return found


class GroupedCommand(CheckedCommand):
    """A command with groups of options in its help; what is in no group comes last.

    Args:
        groups: In the order of the help.
    """

    def __init__(self, *args: Any, groups: Groups = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.groups = groups

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options group by group, each in the order of its group."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        records = {option.name: record for option in options if (record := option.get_help_record(ctx))}
        for title, names in self.groups:
            shown = [records.pop(name) for name in names if name in records]
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)
        if records:
            with formatter.section("Other options" if self.groups else "Options"):
                formatter.write_dl(list(records.values()))
