"""The short form of a report: plain text for ``repr``, a snippet for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trtdiag.analysis.finding import Finding
from trtdiag.analysis.result import Analysis
from trtdiag.report.comparison import Body
from trtdiag.report.engine_words import engines_line
from trtdiag.report.shown_paths import place, short_paths
from trtdiag.report.similar_findings import similar_findings
from trtdiag.report.templates import html_piece
from trtdiag.report.verdict import (
    CauseTree,
    cause_trees,
    declared_with_doubt,
    first_frame,
    in_order,
    not_covered,
    severity_word,
    verdict,
)
from trtdiag.report.view_comparison import comparison_line
from trtdiag.report.view_splits import splits_view
from trtdiag.report.view_strip import strip_view
from trtdiag.wording import listed, one_line, visible

_LISTED = 50
_LONGEST_MESSAGE_CHARS = 1000  # a cut in the middle of a sentence breaks words


def plain_text(analysis: Analysis, comparison: Body | None = None) -> str:
    """Verdict, what changed, what it does not cover, and one line for each finding."""
    result = verdict(analysis)
    lines = [f"<trtdiag report on {one_line(short_paths(analysis.program.label))}>", result.text, *_changes(comparison)]
    lines += [text for text in (engines_line(analysis), result.caveat) if text]
    findings = in_order(analysis.findings)
    lines += [f"  {f.id} {severity_word(f.severity)}: {_message(f)}{_where(f)}" for f in findings[:_LISTED]]
    if len(findings) > _LISTED:
        lines.append(f"  and {len(findings) - _LISTED:,} more")
    return "\n".join(lines)


def snippet(analysis: Analysis, comparison: Body | None = None) -> str:
    """The same and the overview of engines, as a self-contained piece of HTML, everything in it escaped."""
    result, parts = verdict(analysis), analysis.partition
    rows = list(_rows(cause_trees(analysis.findings)))
    return html_piece(
        "notebook.html.j2",
        status=result.status,
        label=one_line(short_paths(analysis.program.label)),
        text=one_line(result.short, 1000),
        bar=None if parts is None else strip_view(parts),
        splits=None if parts is None else splits_view(parts, analysis.findings),
        told=[text for text in (*_changes(comparison), engines_line(analysis)) if text],
        open=not_covered(analysis),
        findings=rows[:_LISTED],
        hidden=len(rows) - _LISTED,
        declare=visible(declared_with_doubt(analysis)),
    )


def _rows(trees: Iterable[CauseTree]) -> Iterator[tuple[str, str, str, str, str, str]]:
    """Rule with a count, severity and its word, message with the names of those like it, line, and what to do."""
    for found in similar_findings(trees):
        finding, count = found.finding, len(found.trees)
        others = f" (also: {listed([one_line(words) for words in found.others])})" if found.others else ""
        yield (
            one_line(finding.rule) + (f" x{count:,}" if count > 1 else ""),
            finding.severity.value,
            severity_word(finding.severity),
            _message(finding) + others,
            _where(finding),
            "" if finding.fix is None else one_line(short_paths(finding.fix.title), _LONGEST_MESSAGE_CHARS),
        )
        yield from _rows(found.caused)


def _changes(comparison: Body | None) -> list[str]:
    if comparison is None:
        return []
    return [f"{comparison_line(comparison)}, compared with {one_line(comparison['earlier'])}"]


def _message(finding: Finding) -> str:
    return one_line(short_paths(finding.message), _LONGEST_MESSAGE_CHARS)


def _where(finding: Finding) -> str:
    frame = first_frame(finding)
    inside = f", in {one_line(frame.inside.short)}" if frame is not None and frame.inside is not None else ""
    return f" ({place(frame)}{inside})" if frame else ""
