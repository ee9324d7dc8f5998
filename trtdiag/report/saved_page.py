"""A page as it is saved in the JSON report, and read back: held against the keys that each of its parts has.

``schema/page-2.txt`` has them, so that a page of a later version, or a damaged one, is refused with its place.
A page of version 1 is held against ``schema/page-1.txt`` and brought to version 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from trtdiag.errors import UserError
from trtdiag.report.page import PLAIN_BOX, Part
from trtdiag.report.page_versions import second_version
from trtdiag.report.strict_json import Json, shown as told

FORMAT = "trtdiag-page/2"
_FIRST_FORMAT = "trtdiag-page/1"


def page_json(page: Part, *, with_graph: bool = True) -> dict[str, Json]:
    """The page as it stands in the JSON report; without the explorer's data where they stand in another place."""
    graph = page["graph"]
    if graph is not None and not with_graph:
        page = {**page, "graph": {**graph, "payload": ""}}
    return {"format": FORMAT, "view": page}


def read_page(body: object, file: str = "") -> Part:
    """The page that was saved.

    Args:
        body: What ``page_json`` gave, in this version or the first.
        file: Where it was read, for errors.

    Raises:
        UserError: ``report-without-page``: it holds no page, or one of another version of trtdiag.
    """
    found = body.get("format") if isinstance(body, Mapping) else None
    if not isinstance(body, Mapping) or found not in (FORMAT, _FIRST_FORMAT):
        raise _unreadable(
            file, f"its page is {found!r}, this version reads {FORMAT!r}" if found else "it holds no page"
        )
    form = _THIS_FORM if found == FORMAT else _FIRST_FORM
    try:
        view = form.read("ReportView", body.get("view"), "page")
    except _NotThisError as fault:
        raise _unreadable(file, str(fault)) from fault
    return view if found == FORMAT else second_version(view)


def _unreadable(file: str, why: str) -> UserError:
    return UserError(
        f"the page of {f'the report {file}' if file else 'this report'} cannot be drawn again",
        because=why,
        fix="make the JSON again with this version of trtdiag: trtdiag analyze --json",
        reference="report-without-page",
    )


class _NotThisError(Exception):
    """A value is not what the page has in its place."""


class _Form(NamedTuple):
    """The form of one version of the page.

    Attributes:
        words: The strings that decide how something looks, each one of a few.
        keys: The keys of each part, with the kinds of their values.
        added: What stands for keys that the first pages of this version did not have.
    """

    words: Mapping[str, tuple[str, ...]]
    keys: Mapping[str, Mapping[str, str]]
    added: Mapping[str, Part]

    def read(self, kind: str, value: Any, where: str) -> Any:
        """The value, whole; ``where`` is its place.

        Raises:
            _NotThisError: It is of another kind.
        """
        if kind.endswith("?"):
            return None if value is None else self.read(kind[:-1], value, where)
        if kind.endswith("*"):
            if not isinstance(value, list):
                raise _NotThisError(f"{where} is no list")
            return [self.read(kind[:-1], item, f"{where}[{at}]") for at, item in enumerate(value)]
        if kind in self.keys:
            return self._read_part(kind, value, where)
        if kind in self.words:
            few = self.words[kind]
            if value not in few:
                raise _NotThisError(f"{where} is {told(value)}, expected one of {', '.join(map(told, few))}")
        elif not isinstance(value, _PLAIN[kind]):
            raise _NotThisError(f"{where} is no {kind}")
        return value

    def _read_part(self, name: str, value: Any, where: str) -> Part:
        keys, added = self.keys[name], self.added.get(name, {})
        if not isinstance(value, dict) or not keys.keys() - added.keys() <= value.keys() <= keys.keys():
            raise _NotThisError(f"{where} has other parts than this version's {name}")
        part = {key: self.read(keys[key], each, f"{where}.{key}") for key, each in value.items()}
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
_ADDED_TO_FIRST: Mapping[str, Part] = {
    "TableView": {"folded": [], "more": "", "kinds": []},
    "PictureBox": PLAIN_BOX,
    "PartitionView": {"tried_summary": "", "tried": None},
}
_FAULTS: Mapping[str, Callable[[Part], str]] = {"TableView": _unequal_rows, "ComparisonView": _other_numbers}
"""What is wrong with parts that do not fit each other; empty where nothing is."""


def _form(version: int, added: Mapping[str, Part]) -> _Form:
    words, keys = {}, {}
    text = (Path(__file__).parent / "schema" / f"page-{version}.txt").read_text(encoding="utf-8")
    for line in text.replace("\n  ", " ").splitlines():
        name, equals, few = line.partition(" = ")
        if equals:
            words[name] = tuple(word.strip() for word in few.split("|"))
        elif line and not line.startswith("#"):
            name, _, parts = line.partition(": ")
            split = (part.partition(":") for part in parts.split())
            keys[name] = {key: kind or "str" for key, _, kind in split}
    return _Form(words, keys, added)


_FIRST_FORM = _form(1, _ADDED_TO_FIRST)
_THIS_FORM = _form(2, {"CompiledView": {"quantization": None, "ways": []}})
