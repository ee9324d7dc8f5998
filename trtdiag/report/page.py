"""What the HTML page shows, as final strings in plain lists and dicts: it is saved as JSON and drawn again from it.

Whoever makes a part gives its keys in their order; the keys of each stand in ``schema/page-2.txt``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias

from trtdiag.report.shown_paths import with_short_paths
from trtdiag.symbolic.text import in_words
from trtdiag.wording import LONG_CHARS, SHOWN_NAME_CHARS, one_line

_SHOWN_ROWS = 8
_LISTED_ROWS = 100

Part: TypeAlias = dict[str, Any]
"""A piece of the page; templates place its strings and decide nothing."""


class Long(str):
    """A text that a cell has more room for than for a name."""

    __slots__ = ()


def cell(value: object, limit: int = SHOWN_NAME_CHARS) -> str:
    """A fact as the page shows it: names and source lines as one line, numbers with separators, none as nothing."""
    if value is None:
        return ""
    if type(value) is int:
        return f"{value:,}"
    if isinstance(value, Enum):
        return str(value.value)
    return one_line(str(value), LONG_CHARS if isinstance(value, Long) else limit)


def cells(*values: object) -> tuple[str, ...]:
    """A row of a table."""
    return tuple(cell(value) for value in values)


def shown(fact: object, *keys: str, limit: int = SHOWN_NAME_CHARS) -> Part:
    """A part of what a fact says under the same keys."""
    return {key: cell(getattr(fact, key), limit) for key in keys}


def fold_label(label: str, hidden: int, listed: int, every: str = "all of them") -> str:
    """The label of what is folded, ``28 more``; it says so where not even the fold lists all of it."""
    return label if hidden <= listed else f"{label}, {listed:,} of them listed here, {every} in the JSON report"


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    folded: Sequence[Sequence[str]] = (),
    more: str = "",
    kinds: Sequence[str] = (),
) -> Part:
    """A plain table, without a head where ``heads`` is empty.

    Args:
        heads: Of the columns.
        rows: Of cells.
        folded: Rows that are shown when they are asked for, under ``more``.
        more: How many there are.
        kinds: What a column holds: ``number``, ``code``, or empty for words, as where nothing is said.
    """
    return {"heads": heads, "rows": rows, "folded": folded, "more": more, "kinds": kinds}


def folding_table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], kinds: tuple[str, ...] = ()) -> Part | None:
    """A table that shows the first rows and folds the rest; ``None`` without rows."""
    if not rows:
        return None
    folded = rows[_SHOWN_ROWS:_LISTED_ROWS]
    hidden = max(0, len(rows) - _SHOWN_ROWS)
    more = fold_label(f"{hidden:,} more" if hidden else "", hidden, len(folded))
    return table(heads, rows[:_SHOWN_ROWS], folded, more, kinds)


def folded_table(
    heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], label: str, kinds: tuple[str, ...] = ()
) -> Part | None:
    """A table of which nothing is shown until it is asked for; ``None`` without rows."""
    if not rows:
        return None
    more = label if len(rows) <= _LISTED_ROWS else f"{label}, {_LISTED_ROWS:,} of them listed here"
    return table(heads, (), rows[:_LISTED_ROWS], more, kinds)


def named_page(part: Any, names: Mapping[str, str]) -> Any:
    """The same part in plain lists and dicts, with short paths and each graph symbol of ``names`` as its name.

    The data of the drawing stay as they are, for they are made with names.
    """
    return with_short_paths(_named(part, names))


def _named(part: Any, names: Mapping[str, str]) -> Any:
    if isinstance(part, str):
        return in_words(part, names)
    if isinstance(part, (list, tuple)):
        return [_named(each, names) for each in part]
    if isinstance(part, dict):
        return {key: each if key == "payload" else _named(each, names) for key, each in part.items()}
    return part


PLAIN_BOX: Part = {
    **dict.fromkeys(("badge", "badge_class"), ""),
    **dict.fromkeys(("badge_x", "badge_y", "badge_text_y"), "0"),
    "chip": "",
    "chip_y": "0",
    "title": "",
}
"""What a box of a picture has without findings, chips and a title."""
