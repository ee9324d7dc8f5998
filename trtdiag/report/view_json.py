"""The page's view as JSON and back, so that a saved report is drawn again without its model."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

from trtdiag.errors import UserError
from trtdiag.report.strict_json import Json, shown
from trtdiag.report.view_page import ReportView

FORMAT = "trtdiag-page/1"


def page_json(view: ReportView, *, with_graph: bool = True) -> Json:
    """The view as plain lists and dicts; without the explorer's data where the page has it in another place."""
    body = cast(dict[str, Json], _plain(view))
    graph = body["graph"]
    if isinstance(graph, dict) and not with_graph:
        graph["payload"] = ""
    return {"format": FORMAT, "view": body}


def _plain(value: object) -> Json:
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, bool)):
        return value
    raise TypeError(f"a view holds final strings, not {type(value).__name__}")


def page_view(body: object, file: str = "") -> ReportView:
    """The view that was saved.

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
        return cast(ReportView, _read(ReportView, body.get("view"), "page"))
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
    """A value is not of the type that the view has in its place."""


def _read(kind: Any, value: object, where: str) -> object:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        _, words = parts
        if value not in words:
            raise _NotThisError(f"{where} is {shown(value)}, expected one of {', '.join(map(shown, words))}")
        return value
    if origin in (Union, types.UnionType):
        (inner,) = (each for each in parts if each is not type(None))
        return None if value is None else _read(inner, value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise _NotThisError(f"{where} is no list")
        return tuple(_read(parts[0], item, f"{where}[{at}]") for at, item in enumerate(value))
    if is_dataclass(kind):
        return _dataclass(kind, value, where)
    if not isinstance(value, kind):
        raise _NotThisError(f"{where} is no {kind.__name__}")
    return value


def _dataclass(kind: Any, value: object, where: str) -> object:
    hints = _hints(kind)
    # What a later version added has a default: reports of before are drawn without it.
    added = {each.name for each in fields(kind) if each.default is not MISSING}
    if not isinstance(value, dict) or not hints.keys() - added <= value.keys() <= hints.keys():
        raise _NotThisError(f"{where} has other parts than this version's {kind.__name__}")
    parts = {name: _read(hint, value[name], f"{where}.{name}") for name, hint in hints.items() if name in value}
    try:
        return kind(**parts)
    except ValueError as error:  # parts that do not fit each other
        raise _NotThisError(f"{where} {error}") from error


@lru_cache(maxsize=128)
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)
