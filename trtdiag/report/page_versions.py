"""A page that an earlier version saved, in the form of this one."""

from __future__ import annotations

from trtdiag.report.page import Part
from trtdiag.report.view_stages import stages_label


def second_version(view: Part) -> Part:
    """The page of ``trtdiag-page/1`` as one of ``trtdiag-page/2``: what was not saved with it is left out."""
    stages = view["stages"]
    return {**view, "stages": {"label": stages_label(stages), "rows": stages}}
