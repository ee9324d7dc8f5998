"""A page that an earlier version saved, in the form of this one."""

from __future__ import annotations

from trtdiag.report.page import Part
from trtdiag.report.view_stages import folded_stages

_NO_SIZES: Part = dict.fromkeys(("name", "residues", "kept", "profile"), "")


def second_version(view: Part) -> Part:
    """The page of ``trtdiag-page/1`` as one of ``trtdiag-page/2``: what was not saved with it is left out."""
    verdict = view["verdict"]
    return {
        **view,
        "verdict": {**verdict, "fix": _fix(verdict["fix"])},
        "stages": folded_stages(view["stages"]),
        "dims": _dims(view["dims"]),
        "types": _with(view["types"], "shares"),
        "compiled": _compiled(view["compiled"]),
        "speed": _speed(view["speed"]),
        "memory": _with(view["memory"], "course"),
        "findings": [_finding(each) for each in view["findings"]],
        "strip": _strip(view["strip"]),
    }


def _with(view: Part | None, picture: str) -> Part | None:
    return None if view is None else {**view, picture: None}


def _compiled(view: Part | None) -> Part | None:
    if view is None:
        return None
    engines = [{**each, "built": _with(each["built"], "times")} for each in view["engines"]]
    verification = _with(view["verification"], "errors")
    return {**view, "sizes": None, "verification": verification, "engines": engines, "quantization": None, "ways": []}


def _speed(view: Part | None) -> Part | None:
    return None if view is None else {**view, "tables": [_with(each, "chart") for each in view["tables"]]}


def _finding(view: Part) -> Part:
    alone: Part = {"count": "", "also": "", "alike": [], "alike_label": ""}
    return {**view, **alone, "fix": _fix(view["fix"]), "caused": [_finding(each) for each in view["caused"]]}


def _fix(view: Part | None) -> Part | None:
    return None if view is None else {**view, "see": False}


def _dims(view: Part) -> Part:
    rows = {key: [{**row, **_NO_SIZES} for row in view[key]] for key in ("rows", "static")}
    return {**view, **rows, "more": "", "declare": "", "ranges": None}


def _strip(view: Part | None) -> Part | None:
    return None if view is None else {**view, "pieces": [{**piece, "step": ""} for piece in view["pieces"]]}
