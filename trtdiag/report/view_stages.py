"""The stages as the page shows them: those that failed, and one line for the others."""

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
    return folded_stages(rows, seconds_text(seconds))


def folded_stages(rows: Sequence[Part], time: str = "") -> Part:
    """The part of the page; ``time`` is that of all stages that ran well, where it is known."""
    failed = [row for row in rows if row["state"] == "failed"]
    rest = [row for row in rows if row["state"] != "failed"]
    return {"failed": failed, "label": _label(rest, time, is_all=not failed), "rows": rest}


def _label(rows: Sequence[Part], time: str, *, is_all: bool) -> str:
    """``7 stages ok in 2.10 s; convert, build, verify not run``."""
    ran = sum(row["state"] == "ok" for row in rows)
    skipped = ", ".join(row["name"] for row in rows if row["state"] == "not run")
    stages = amount(ran, "stage" if is_all else "other stage")
    told = [f"{stages} ok" + (f" in {time}" if time else "")] if ran else []
    return "; ".join(told + ([f"{skipped} not run"] if skipped else []))


def _stage(stage: StageTiming) -> Part:
    time = "" if stage.state == "not run" else seconds_text(stage.seconds)
    return {**shown(stage, "name", "state"), "time": time, **shown(stage, "message", limit=_LONGEST_NOTE_CHARS)}
