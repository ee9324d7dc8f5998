"""What the HTML page shows, as final strings in plain lists and dicts: it is saved as JSON and drawn again from it.

Whoever makes a part gives its keys in their order.  What a page that was saved must have stands in
``schema/page-1.txt``, so that one of another version, or a damaged one, is refused with its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias

from trtdiag.errors import UserError
from trtdiag.report.strict_json import Json, shown as told
from trtdiag.symbolic.text import in_words
from trtdiag.wording import LONG_CHARS, SHOWN_NAME_CHARS, one_line

FORMAT = "trtdiag-page/1"
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
    """The label of what is folded, ``and 28 more``; it says so where not even the fold lists all of it."""
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
    more = fold_label(f"and {hidden:,} more" if hidden else "", hidden, len(folded))
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
    """The same part in plain lists and dicts, with each graph symbol of ``names`` in its texts as its name.

    The data of the drawing stay as they are, for they are made with names.
    """
    if isinstance(part, str):
        return in_words(part, names)
    if isinstance(part, (list, tuple)):
        return [named_page(each, names) for each in part]
    if isinstance(part, dict):
        return {key: each if key == "payload" else named_page(each, names) for key, each in part.items()}
    return part


def page_json(page: Part, *, with_graph: bool = True) -> dict[str, Json]:
    """The page as it stands in the JSON report; without the explorer's data where they stand in another place."""
    graph = page["graph"]
    if graph is not None and not with_graph:
        page = {**page, "graph": {**graph, "payload": ""}}
    return {"format": FORMAT, "view": page}


def read_page(body: object, file: str = "") -> Part:
    """The page that was saved.

    Args:
        body: What ``page_json`` gave.
        file: Where it was read, for errors.

    Raises:
        UserError: ``report-without-page``: it holds no page, or one of another version of trtdiag.
    """
    if not isinstance(body, Mapping) or body.get("format") != FORMAT:
        found = body.get("format") if isinstance(body, Mapping) else None
        raise _unreadable(
            file, f"its page is {found!r}, this version reads {FORMAT!r}" if found else "it holds no page"
        )
    try:
        return _read("ReportView", body.get("view"), "page")  # type: ignore[no-any-return]
    except _NotThisError as fault:
        raise _unreadable(file, str(fault)) from fault


def _unreadable(file: str, why: str) -> UserError:
    return UserError(
        f"the page of {f'the report {file}' if file else 'this report'} cannot be drawn again",
        because=why,
        fix="make the JSON again with this version of trtdiag: trtdiag analyze --json",
        reference="report-without-page",
    )


class _NotThisError(Exception):
    """A value is not what the page has in its place."""


def _read(kind: str, value: Any, where: str) -> Any:
    if kind.endswith("?"):
        return None if value is None else _read(kind[:-1], value, where)
    if kind.endswith("*"):
        if not isinstance(value, list):
            raise _NotThisError(f"{where} is no list")
        return [_read(kind[:-1], item, f"{where}[{at}]") for at, item in enumerate(value)]
    if kind in _KEYS:
        return _read_part(kind, value, where)
    if kind in _WORDS:
        if value not in _WORDS[kind]:
            raise _NotThisError(f"{where} is {told(value)}, expected one of {', '.join(map(told, _WORDS[kind]))}")
    elif not isinstance(value, _PLAIN[kind]):
        raise _NotThisError(f"{where} is no {kind}")
    return value


def _read_part(name: str, value: Any, where: str) -> Part:
    keys, added = _KEYS[name], _ADDED.get(name, {})
    if not isinstance(value, dict) or not keys.keys() - added.keys() <= value.keys() <= keys.keys():
        raise _NotThisError(f"{where} has other parts than this version's {name}")
    part = {key: _read(keys[key], each, f"{where}.{key}") for key, each in value.items()}
    part |= {key: usual for key, usual in added.items() if key not in part}
    if fault := _FAULTS[name](part) if name in _FAULTS else "":
        raise _NotThisError(f"{where} {fault}")
    return part


def _unequal_rows(part: Part) -> str:
    heads = len(part["heads"])
    unequal = heads and any(len(row) != heads for row in (*part["rows"], *part["folded"]))
    return f"has {heads} heads and a row of another number of cells" if unequal else ""


def _other_numbers(part: Part) -> str:
    other = len(part["numbers"]["heads"]) != 3
    return "has numbers in other columns than what, before and now" if other else ""


_PLAIN: Mapping[str, type] = {"str": str, "bool": bool}
PLAIN_BOX: Part = {
    **dict.fromkeys(("badge", "badge_class"), ""),
    **dict.fromkeys(("badge_x", "badge_y", "badge_text_y"), "0"),
    "chip": "",
    "chip_y": "0",
    "title": "",
}
"""What a box of a picture has without findings, chips and a title."""
_ADDED: Mapping[str, Part] = {
    "TableView": {"folded": [], "more": "", "kinds": []},
    "PictureBox": PLAIN_BOX,
    "PartitionView": {"tried_summary": "", "tried": None},
}
"""What stands for keys that pages of before do not have."""
_FAULTS: Mapping[str, Callable[[Part], str]] = {"TableView": _unequal_rows, "ComparisonView": _other_numbers}
"""What is wrong with parts that do not fit each other; empty where nothing is."""


def _declared(text: str) -> tuple[dict[str, tuple[str, ...]], dict[str, dict[str, str]]]:
    """The strings that decide how something looks, each one of a few; and the keys of each part with their kinds."""
    words, keys = {}, {}
    for line in text.replace("\n  ", " ").splitlines():
        name, equals, few = line.partition(" = ")
        if equals:
            words[name] = tuple(word.strip() for word in few.split("|"))
        elif line and not line.startswith("#"):
            name, _, parts = line.partition(": ")
            split = (part.partition(":") for part in parts.split())
            keys[name] = {key: kind or "str" for key, _, kind in split}
    return words, keys


_WORDS, _KEYS = _declared((Path(__file__).parent / "schema" / "page-1.txt").read_text(encoding="utf-8"))
