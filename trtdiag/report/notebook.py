"""The short form of a report: plain text for ``repr``, a snippet for notebooks."""

from __future__ import annotations

from trtdiag.analysis.finding import Finding
from trtdiag.analysis.result import Analysis
from trtdiag.report.comparison import Body
from trtdiag.report.engine_words import engines_line
from trtdiag.report.templates import html_piece
from trtdiag.report.verdict import first_frame, in_order, severity_word, verdict
from trtdiag.report.view_comparison import comparison_line
from trtdiag.report.view_splits import splits_view
from trtdiag.report.view_strip import strip_view
from trtdiag.wording import one_line

_LISTED = 50


def plain_text(analysis: Analysis, comparison: Body | None = None) -> str:
    """Verdict, what changed, what it does not cover, and one line for each finding."""
    result = verdict(analysis)
    lines = [f"<trtdiag report on {one_line(analysis.program.label)}>", result.text, *_changes(comparison)]
    lines += [text for text in (engines_line(analysis), result.caveat) if text]
    findings = in_order(analysis.findings)
    lines += [f"  {f.id} {severity_word(f.severity)}: {one_line(f.message)}{_where(f)}" for f in findings[:_LISTED]]
    if len(findings) > _LISTED:
        lines.append(f"  and {len(findings) - _LISTED:,} more")
    return "\n".join(lines)


def snippet(analysis: Analysis, comparison: Body | None = None) -> str:
    """The same and the overview of engines, as a self-contained piece of HTML, everything in it escaped."""
    result, parts = verdict(analysis), analysis.partition
    findings = in_order(analysis.findings)
    return html_piece(
        "notebook.html.j2",
        status=result.status,
        label=one_line(analysis.program.label),
        text=one_line(result.text, 1000),
        bar=None if parts is None else strip_view(parts),
        splits=None if parts is None else splits_view(parts, analysis.findings),
        told=[text for text in (*_changes(comparison), engines_line(analysis), result.caveat) if text],
        findings=[
            (one_line(f.id), f.severity.value, severity_word(f.severity), one_line(f.message), _where(f))
            for f in findings[:_LISTED]
        ],
        hidden=len(findings) - _LISTED,
    )


def _changes(comparison: Body | None) -> list[str]:
    return [] if comparison is None else [f"{comparison_line(comparison)}, since {one_line(comparison['earlier'])}"]


def _where(finding: Finding) -> str:
    frame = first_frame(finding)
    inside = f", in {one_line(frame.inside.short)}" if frame is not None and frame.inside is not None else ""
    return f" ({one_line(str(frame))}{inside})" if frame else ""
