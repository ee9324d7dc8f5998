"""What the HTML page shows, as final strings in plain lists and dicts: it is saved as JSON and drawn again from it.

Whoever makes a part gives its keys in their order.  What a page that was saved must have stands here, so that one of
another version, or a damaged one, is refused with its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from trtdiag.errors import UserError
from trtdiag.report.strict_json import Json, shown
from trtdiag.symbolic.text import in_words

FORMAT = "trtdiag-page/1"

Part: TypeAlias = dict[str, Any]
"""A piece of the page; templates place its strings and decide nothing."""


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
            raise _NotThisError(f"{where} is {shown(value)}, expected one of {', '.join(map(shown, _WORDS[kind]))}")
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
_WORDS: Mapping[str, tuple[str, ...]] = {
    "Status": ("error", "warning", "incomplete", "partial", "clean"),
    "StageState": ("ok", "failed", "not run"),
    "Severity": ("error", "warning", "info"),
    "Applicability": ("safe", "unsafe", "manual"),
    "SizeState": ("ok", "breaks", "pinned", "unbounded", "static"),
    "GuardVerdict": ("holds", "breaks", "unknown"),
    "ColumnKind": ("number", "code", ""),
    "PointState": ("agrees", "unstable", "differs", "failed", "skipped"),
    "Agreement": ("agrees", "differs", "unknown"),
    "RunsIn": ("engine", "torch"),
    "ChangeState": ("new", "fixed", "unchanged"),
}
"""Strings that decide how something looks: each is one of a few."""
_PARTS: Mapping[str, str] = {
    "ReportView": "label verdict:VerdictView stages:StageView* findings:FindingView* splits:SplitsView?"
    " inputs:InputsView dims:DimsView types:TypesView? strip:StripView? partition:PartitionView? graph:GraphView?"
    " coverage:CoverageView? compiled:CompiledView? speed:SpeedView? no_work:NoWorkView? memory:MemoryView?"
    " metadata:MetadataView? comparison:ComparisonView? settings:SettingsView not_checked:str* footer:str*",
    "VerdictView": "status:Status text headline first first_id fix:FixView? counts caveat failure failure_text"
    " failure_source:SourceView?",
    "StageView": "name state:StageState time message",
    "FindingView": "id rule name title severity:Severity word message impact modules evidence:EvidenceView*"
    " more_evidence:EvidenceView* more_evidence_label where source:SourceView? fix:FixView? places:PlaceView*"
    " folded:PlaceView* more caused:FindingView* caused_label",
    "EvidenceView": "fact source",
    "FixView": "title applicability:Applicability meaning code",
    "PlaceView": "node op module where",
    "SourceView": "where function lines:CodeLine*",
    "CodeLine": "number text current:bool",
    "TableView": "heads:str* rows:str** folded:str** more kinds:ColumnKind*",
    "Picture": "width height boxes:PictureBox* edges:str*",
    "PictureBox": "x y width height classes label sub text_x label_y sub_y badge badge_class badge_x badge_y"
    " badge_text_y chip chip_y title",
    "SplitsView": "summary outcomes:str* rows:SplitView* folded:SplitView* more minimum:TableView?",
    "SplitView": "op reason code calls where engines ops crossing finding",
    "InputsView": "inputs:TableView? rows:SymbolRowView* note guards:GuardsView",
    "SymbolRowView": "name origin born range profile expressions guards:GuardLineView* more_guards uses state:SizeState"
    " verdict",
    "GuardLineView": "text verdict:GuardVerdict where",
    "GuardsView": "summary troubled:GuardView* more holding:TableView? holding_label unparsed:UnparsedView*"
    " more_unparsed",
    "GuardView": "verdict:GuardVerdict text counterexample witness allowed note proof proven:bool found_in cause"
    " source:SourceView?",
    "UnparsedView": "text why found_in",
    "DimsView": "rows:DimRowView* static:DimRowView* static_label suggestions:SuggestionView* pinned:str* tied:str*"
    " conflicts:str**",
    "DimRowView": "site declared range allowed suggested state:SizeState label",
    "SuggestionView": "code sites summary proof proven:bool alternatives:str*",
    "TypesView": "target counts:TableView int64_note int64:TableView? float64:TableView? unsupported:TableView?"
    " planned:TableView? precision:PrecisionView?",
    "PrecisionView": "title summary stays:TableView?",
    "StripView": "pieces:StripPieceView* badges:str* note",
    "StripPieceView": "x width kind:RunsIn title label label_x",
    "PartitionView": "summary strip:Picture? strip_note segments:SegmentView* more_segments boundaries:TableView?"
    " tried_summary tried:TableView?",
    "SegmentView": "title summary crossing:TableView sizes:TableView?",
    "GraphView": "summary picture:Picture payload layout_note",
    "CoverageView": "summary table:TableView?",
    "CompiledView": "summary verification:VerificationView? engines:EngineView* more_engines",
    "VerificationView": "state:Agreement text rows:PointRowView* folded:PointRowView* more allowed culprit"
    " source:SourceView? notes:str*",
    "PointRowView": "point sizes output max_abs max_rel allowed state:PointState why",
    "EngineView": "title summary made layers ports:TableView built:EngineLayersView is_open:bool",
    "EngineLayersView": "label summary rows:LayerRowView* more timed:bool why",
    "LayerRowView": "place nodes modules lines:LineView* ops:LayerOpView* all moves:bool note kind name precision"
    " tactic time share",
    "LayerOpView": "op node module where code",
    "LineView": "short full",
    "SpeedView": "summary tables:TimesView*",
    "TimesView": "title table:TableView",
    "NoWorkView": "summary table:TableView? passes:TableView?",
    "MemoryView": "sums:TableView largest:TableView?",
    "MetadataView": "summary defects:TableView? unchecked:TableView?",
    "ComparisonView": "summary earlier changes:ChangeView* folded:ChangeView* more numbers:TableView symbols:TableView?"
    " notes:str*",
    "ChangeView": "state:ChangeState id severity:Severity word message",
    "SettingsView": "settings:TableView? versions:TableView command",
}
"""The keys of each part: strings, or of a kind that stands behind it, in a list (``*``) or perhaps none (``?``)."""
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
_KEYS = {
    name: {key: kind or "str" for key, _, kind in (word.partition(":") for word in text.split())}
    for name, text in _PARTS.items()
}
