"""For the terminal: tables without lines, text with a hanging indent, code to copy (print with ``crop=False``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

_LEAST_COLUMNS = 24


def plain_table(words: Sequence[str] = (), numbers: Sequence[str] = (), **kwargs: Any) -> Table:
    """A table with columns of words, which fold, and then of numbers; further columns are added to it."""
    table = Table(box=None, pad_edge=False, show_edge=False, **kwargs)
    for name in words:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def hanging(left: int, *parts: Text | str | tuple[str, str]) -> RenderableType:
    """The parts as one text, whose lines after the first begin ``left`` columns in; a part may have a style."""
    return _Hanging(Text.assemble(*parts), left)


def unbroken(text: str, left: int = 0) -> Text:
    """Code and paths to copy: their lines are never broken, however narrow the terminal is."""
    lines = "\n".join(" " * left + line if line else "" for line in text.split("\n"))
    return Text(lines, no_wrap=True, overflow="ignore")


# An option with its value, and code in backquotes: what is copied from a sentence.
_TO_COPY = re.compile(r"--[a-z][a-z-]* (?:'[^']*'|[^\s=<>]+[=<>]\S+)|`[^`]{1,60}`")
_KEPT_SPACE = "\ue000"  # no text has it, and no line is broken at it


class _Hanging:
    def __init__(self, text: Text, left: int) -> None:
        text.plain = _TO_COPY.sub(lambda found: found[0].replace(" ", _KEPT_SPACE), text.plain)
        self._text = text
        self._left = left

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(_LEAST_COLUMNS, options.max_width)
        first = self._text.wrap(console, width, overflow="fold")[0]
        rest = self._text[len(first) :]
        yield _line(first)
        blank = len(rest) - len(rest.plain.lstrip())
        if blank < len(rest):
            for line in rest[blank:].wrap(console, width - self._left, overflow="fold"):
                yield Text(" " * self._left) + _line(line)


def _line(text: Text) -> Text:
    text.plain = text.plain.replace(_KEPT_SPACE, " ")
    text.rstrip()
    return text
