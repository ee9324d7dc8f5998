"""What a step's report, answer or compilation says, as the values of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trtdiag.fixdims.fix import Fix, Outcome
from trtdiag.fleet.facts import Built, Diagnosis, Failure, FixedDims, Hit, LeftOp
from trtdiag.pipeline.state import State
from trtdiag.report.compile_words import outcome
from trtdiag.report.fix_words import fix_verdict
from trtdiag.report.report import Report
from trtdiag.report.verdict import merged_dynamic_shapes, verdict
from trtdiag.verification.facts import Verification
from trtdiag.wording import first_line, one_line

_WRONG = frozenset({"breaks", "pinned", "unbounded"})
_STATIC = "static"
_MOST_OPS = 40
"""As many groups as an analysis works the cost out for."""


def diagnosis_of(report: Report) -> Diagnosis:
    """The numbers of a report."""
    body, analysis = report.body, report.analysis
    if analysis.compilation is not None:
        # At how many sizes outputs were compared hangs on the time that there was.
        analysis = replace(analysis, compilation=None, not_checked=())
    told = verdict(analysis)
    # Of stages that failed there are no findings: what is known is not all, and warnings alone would let a sweep pass.
    incomplete = analysis.fault is not None and told.status == "warning"
    split, memory, rows = body["partition"], body["memory"], body["dims"]["rows"]
    inside = None if split is None else sum(len(segment["ops"]) for segment in split["segments"])
    outside = 0 if split is None else sum(bool(each["computes"]) for each in split["left_to_pytorch"])
    return Diagnosis(
        status="incomplete" if incomplete else told.status,
        text=one_line(told.text),
        findings=tuple(
            Hit(each["rule"], each["name"], each["severity"], one_line(each["message"]), str(each["fingerprint"]))
            for each in body["findings"]
        ),
        engines=None if split is None else len(split["segments"]),
        ops=None if inside is None else inside + outside,
        ops_in_engines=inside,
        left=_left(split),
        dims=len(rows),
        dynamic_dims=sum(row["state"] != _STATIC for row in rows),
        wrong_dims=sum(row["state"] in _WRONG for row in rows),
        declare=merged_dynamic_shapes(report.analysis) or "",
        program_bytes=body["program"]["file_bytes"],
        weight_bytes=memory and memory["weight_bytes"],
        live_bytes=memory and memory["live_bytes"],
    )


def _left(split: Mapping[str, Any] | None) -> tuple[LeftOp, ...]:
    """What stays with PyTorch, with the engines that each costs."""
    costs = () if split is None else split["costs"]
    words = (
        {} if split is None else {(each["op"], each["reason"]): each["why"] for each in split["left_to_pytorch"][::-1]}
    )
    found = [
        LeftOp(
            op=each["op"],
            reason=each["reason"],
            why=one_line(words.get((each["op"], each["reason"]), each["reason"])),
            calls=each["calls"],
            engines=max(0, each["engines_before"] - each["engines_after"]),
        )
        for each in costs
    ]
    return tuple(sorted(found, key=lambda each: (-each.engines, -each.calls, each.op, each.reason))[:_MOST_OPS])


def fixed_of(fix: Fix, file: str) -> FixedDims:
    """What fix-dims answered."""
    verdict = fix_verdict(fix)
    changes = tuple(one_line(f"{each.before}  ->  {each.after}") for each in fix.changes)
    # How many sizes there was time to try is told in the answer itself; the outcome does not hang on it.
    return FixedDims(fix.outcome.value, one_line(verdict.text), fix.proven, changes, file, fix.confirmation.exported)


def usable(fix: Fix) -> bool:
    """Whether there is a corrected program to save."""
    return fix.outcome is Outcome.CHANGED and fix.confirmation.exported is True


def compared_of(found: Verification | None) -> str:
    """``agrees``, ``differs``, ``unknown`` or ``not compared``."""
    return "not compared" if found is None else outcome(found)


def built_of(state: State, file: str, file_bytes: int) -> Built:
    """What was compiled."""
    facts = state.report.analysis.compilation
    engines = () if facts is None else facts.engines
    backends = list(dict.fromkeys(engine.manifest.backend for engine in engines))
    return Built(
        backend=", ".join(backends) or "none",
        engines=len(engines),
        engine_bytes=sum(engine.engine_bytes for engine in engines),
        compared=compared_of(state.verification),
        file=file,
        file_bytes=file_bytes,
    )


def failure_of(error: BaseException) -> Failure:
    """An error in words."""
    told = [one_line(str(getattr(error, key, ""))) for key in ("because", "fix", "reference")]
    message = str(getattr(error, "message", "")) or first_line(error)
    return Failure(type(error).__name__, one_line(message), told[0], told[1], told[2])
