"""Tables in the terminal: without lines, numbers at the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table


def plain_table(words: Sequence[str] = (), numbers: Sequence[str] = (), **kwargs: Any) -> Table:
    """A table with columns of words, which fold, and then of numbers; further columns are added to it."""
    table = Table(box=None, pad_edge=False, show_edge=False, **kwargs)
    for name in words:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table
