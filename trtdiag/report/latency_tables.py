"""What ``--optimize latency`` measured and chose, as tables: on the page, and in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from trtdiag.analysis.backend_times import Optimization, way_name
from trtdiag.grouping import grouped
from trtdiag.report.page import Part, folding_table
from trtdiag.report.terminal_layout import hanging, plain_table
from trtdiag.symbolic.size_names import named_sizes
from trtdiag.wording import LONG_CHARS, one_line

_MOST_ROWS = 12
"""Own choice, of a table in the terminal."""


@dataclass(frozen=True)
class _Times:
    """A table.

    Attributes:
        title: What stands over it.
        what: What its first column has.
        numbers: The heads of the columns with numbers.
        words: The head of the last column.
        rows: What, numbers, and words.
    """

    title: str
    what: str
    numbers: tuple[str, ...]
    words: str
    rows: tuple[tuple[str, tuple[str, ...], str], ...]


def latency_view(found: Optimization | None, names: Mapping[str, str]) -> list[Part]:
    """The tables of the page; ``names`` are for symbols."""
    return [
        {
            "title": each.title,
            "chart": None,
            "table": folding_table(
                (each.what, *each.numbers, each.words),
                [(what, *numbers, words) for what, numbers, words in each.rows],
                kinds=("", *["number"] * len(each.numbers), ""),
            ),
        }
        for each in ([] if found is None else _tables(found, names))
    ]


def latency_text(found: Optimization, names: Mapping[str, str]) -> Iterator[RenderableType]:
    """The tables of the terminal."""
    for each in _tables(found, names):
        yield Text(each.title, style="bold")
        table = plain_table([each.what], each.numbers)
        table.add_column(each.words, overflow="fold")
        for what, numbers, words in each.rows[:_MOST_ROWS]:
            table.add_row(Text(what), *numbers, Text(words))
        yield Padding(table, (0, 0, 0, 2))
        hidden = len(each.rows) - _MOST_ROWS
        if hidden > 0:
            yield hanging(2, f"  and {hidden:,} more, in the report")
        yield Text()


def _tables(found: Optimization, names: Mapping[str, str]) -> Iterator[_Times]:
    sizes = ", ".join(f"{name}={size}" for name, size in named_sizes(found.sizes, names).items())
    at = f"ms on {one_line(found.device)}{f' at {one_line(sizes)}' if sizes else ''}"
    if found.wholes:
        yield _Times(f"Whole programs, {at}", "program", ("segments", "ms"), "", tuple(_wholes(found)))
    if found.blocks:
        kinds = list(dict.fromkeys(kind for block in found.blocks for kind in (*block.times_ms, *block.refused)))
        heads = ("ops", "alike", *map(way_name, kinds))
        yield _Times(f"Blocks, {at}", "block", heads, "runs in", tuple(_blocks(found, kinds)))
    if found.pytorch_segments:
        heads = ("ops", "alike", "op by op", "compiled")
        yield _Times(f"What stays with PyTorch, {at}", "segment", heads, "runs", tuple(_staying(found)))


def _wholes(found: Optimization) -> Iterator[tuple[str, tuple[str, ...], str]]:
    for whole in found.wholes:
        took = "not timed" if whole.time_ms is None else _ms(whole.time_ms)
        words = f"not taken: {whole.why_not}" if whole.why_not else "taken"
        yield one_line(whole.name), (str(whole.segments), took), one_line(words, LONG_CHARS)


def _blocks(found: Optimization, kinds: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...], str]]:
    for block in _each_once(found.blocks, "module", "first"):
        times = [_ms(block.times_ms[kind]) if kind in block.times_ms else "none" for kind in kinds]
        refused = "".join(f"; not by {way_name(kind)}: {why}" for kind, why in block.refused.items())
        words = f"{way_name(block.chosen)}{refused}"
        yield _place(block), (str(block.ops), str(block.like), *times), one_line(words, LONG_CHARS)


def _staying(found: Optimization) -> Iterator[tuple[str, tuple[str, ...], str]]:
    for timed in _each_once(found.pytorch_segments, "module", "first"):
        times = ["none" if took is None else _ms(took) for took in (timed.eager_ms, timed.compiled_ms)]
        words = f"{'compiled' if timed.compiled else 'op by op'}: {timed.why}"
        yield _place(timed), (str(timed.ops), str(timed.like), *times), one_line(words, LONG_CHARS)


def _each_once(rows: Sequence[Any], *places: str) -> list[Any]:
    """The first of those that are alike and run alike: that differ in no more than their places."""
    alike = grouped((repr({key: value for key, value in vars(row).items() if key not in places}), row) for row in rows)
    return [first for first, *_ in alike.values()]


def _place(part: Any) -> str:
    return one_line(part.module or f"from {part.first} on")


def _ms(took: float) -> str:
    return f"{took:.3g}"
