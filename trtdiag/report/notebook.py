"""The short form of a report: plain text for ``repr``, a snippet for notebooks."""

from __future__ import annotations

from markupsafe import Markup

from trtdiag.analysis.finding import Finding
from trtdiag.analysis.result import Analysis
from trtdiag.report.comparison import Comparison
from trtdiag.report.engine_words import engines_line
from trtdiag.report.text import one_line
from trtdiag.report.verdict import first_frame, in_order, severity_word, verdict
from trtdiag.report.view_comparison import comparison_line
from trtdiag.report.view_splits import splits_view
from trtdiag.report.view_strip import strip_view

_LISTED = 50
_PIECES = {"engine": ("solid #116329", "#dafbe1"), "torch": ("dashed #7d4e00", "#fff8c5")}
_COLOURS = {"error": "#a40e26", "warning": "#7d4e00", "info": "#0550ae", "incomplete": "#7d4e00", "clean": "#116329"}


def plain_text(analysis: Analysis, comparison: Comparison | None = None) -> str:
    """Verdict, what changed, what it does not cover, and one line for each finding."""
    result = verdict(analysis)
    lines = [f"<trtdiag report on {one_line(analysis.program.label)}>", result.text, *_changes(comparison)]
    lines += [text for text in (engines_line(analysis), result.caveat) if text]
    findings = in_order(analysis.findings)
    lines += [f"  {f.id} {severity_word(f.severity)}: {one_line(f.message)}{_where(f)}" for f in findings[:_LISTED]]
    if len(findings) > _LISTED:
        lines.append(f"  and {len(findings) - _LISTED:,} more")
    return "\n".join(lines)


def snippet(analysis: Analysis, comparison: Comparison | None = None) -> str:
    """The same and the overview of engines, as a self-contained piece of HTML, everything in it escaped."""
    result = verdict(analysis)
    findings = in_order(analysis.findings)
    rows = Markup("").join(_row(finding) for finding in findings[:_LISTED])
    rest = len(findings) - _LISTED
    more = Markup("<p>and {} more</p>").format(f"{rest:,}") if rest > 0 else ""
    told = [text for text in (*_changes(comparison), engines_line(analysis), result.caveat) if text]
    caveat = Markup("").join(Markup("<p>{}</p>").format(text) for text in told)
    # Own grounds under own inks: a notebook may be dark.
    return str(
        Markup(
            '<div style="background:#fff;color:#1f2328;padding:.5em .8em;border-left:5px solid {};'
            'overflow-wrap:anywhere">'
            "<p>trtdiag · <code>{}</code></p><p><b>{}</b></p>{}{}<table>{}</table>{}</div>"
        ).format(
            _COLOURS[result.status],
            one_line(analysis.program.label),
            one_line(result.text, 1000),
            _overview(analysis),
            caveat,
            rows,
            more,
        )
    )


def _changes(comparison: Comparison | None) -> list[str]:
    return [] if comparison is None else [f"{comparison_line(comparison)}, since {one_line(comparison.earlier)}"]


def _overview(analysis: Analysis) -> Markup:
    """The execution as a bar, and what would join engines; nothing where no engines were planned."""
    if analysis.partition is None:
        return Markup("")
    bar = strip_view(analysis.partition)
    pieces = [] if bar is None else bar["pieces"]
    drawn = Markup("").join(
        Markup(
            '<span title="{}" style="flex:{} 0 3px;overflow:hidden;white-space:nowrap;text-align:center;'
            'font-size:11px;line-height:20px;border:1px {};background:{}">{}</span>'
        ).format(piece["title"], piece["width"].rstrip("%"), *_PIECES[piece["kind"]], piece["label"])
        for piece in pieces
    )
    told = Markup("").join(
        Markup("<p>{}</p>").format(text) for text in splits_view(analysis.partition, analysis.findings)["outcomes"]
    )
    return Markup('<div style="display:flex;max-width:60em;margin:.4em 0">{}</div>{}').format(drawn, told)


def _row(finding: Finding) -> Markup:
    return Markup(
        '<tr><td style="text-align:left;white-space:nowrap">{}</td><td style="text-align:left;color:{}">{}</td>'
        '<td style="text-align:left">{}<span style="color:#57606a">{}</span></td></tr>'
    ).format(
        one_line(finding.id),
        _COLOURS[finding.severity.value],
        severity_word(finding.severity),
        one_line(finding.message),
        _where(finding),
    )


def _where(finding: Finding) -> str:
    frame = first_frame(finding)
    inside = f", in {one_line(frame.inside.short)}" if frame is not None and frame.inside is not None else ""
    return f" ({one_line(str(frame))}{inside})" if frame else ""
