"""Commands whose help shows options in groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from trtdiag.cli.value_checks import CheckedCommand

Groups = Sequence[tuple[str, Sequence[str]]]
"""A title and the names of parameters, for each group."""


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
