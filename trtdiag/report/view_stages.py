"""The stages as the page shows them: one line where none failed."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.analysis.result import Analysis
from trtdiag.analysis.stage_timing import StageTiming
from trtdiag.report.page import Part, shown
from trtdiag.wording import amount, seconds_text

_LONGEST_NOTE_CHARS = 2000


def stages_view(analysis: Analysis) -> Part:
    """Every stage; those of compiling are there, too, so that a plan does not read as an engine."""
    rows = [_stage(stage) for stage in analysis.stages]
    if analysis.compilation is None:
        rows.append(_stage(StageTiming("convert, build, verify", "not run", 0.0, "trtdiag compile does that")))
    seconds = sum(stage.seconds for stage in analysis.stages if stage.state == "ok")
    return {"label": stages_label(rows, seconds_text(seconds)), "rows": rows}


def stages_label(rows: Sequence[Part], time: str = "") -> str:
    """``7 stages ok in 2.1 s; convert, build, verify not run``; empty where one failed, so that all are shown."""
    if any(row["state"] == "failed" for row in rows):
        return ""
    ran = sum(row["state"] == "ok" for row in rows)
    skipped = ", ".join(row["name"] for row in rows if row["state"] == "not run")
    told = [f"{amount(ran, 'stage')} ok" + (f" in {time}" if time else "")] if ran else []
    return "; ".join(told + ([f"{skipped} not run"] if skipped else []))


def _stage(stage: StageTiming) -> Part:
    time = "" if stage.state == "not run" else seconds_text(stage.seconds)
    return {**shown(stage, "name", "state"), "time": time, **shown(stage, "message", limit=_LONGEST_NOTE_CHARS)}
