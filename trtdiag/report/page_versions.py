"""A page that an earlier version saved, in the form of this one."""

from __future__ import annotations

from trtdiag.report.page import Part
from trtdiag.report.view_stages import stages_label

_NO_SIZES: Part = dict.fromkeys(("name", "residues", "kept", "profile"), "")


def second_version(view: Part) -> Part:
    """The page of ``trtdiag-page/1`` as one of ``trtdiag-page/2``: what was not saved with it is left out."""
    stages, verdict = view["stages"], view["verdict"]
    return {
        **view,
        "verdict": {**verdict, "fix": _fix(verdict["fix"])},
        "stages": {"label": stages_label(stages), "rows": stages},
        "dims": _dims(view["dims"]),
        "findings": [_finding(each) for each in view["findings"]],
        "strip": _strip(view["strip"]),
    }


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
