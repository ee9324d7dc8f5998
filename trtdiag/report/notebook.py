"""The short form of a report: plain text for ``repr``, a snippet for notebooks."""

from __future__ import annotations

from markupsafe import Markup

from trtdiag.analysis.finding import Finding
from trtdiag.analysis.result import Analysis
from trtdiag.report.engine_words import engines_line
from trtdiag.report.text import one_line
from trtdiag.report.verdict import cause_trees, severity_word, verdict

_LISTED = 50
_COLOURS = {"error": "#a40e26", "warning": "#7d4e00", "info": "#0550ae", "incomplete": "#7d4e00", "clean": "#116329"}


def plain_text(analysis: Analysis) -> str:
    """Verdict, what it does not cover, and one line for each finding."""
    result = verdict(analysis)
    lines = [f"<trtdiag report on {one_line(analysis.program.label)}>", result.text]
    lines += [text for text in (engines_line(analysis), result.caveat) if text]
    findings = _ordered(analysis)
    lines += [f"  {f.id} {severity_word(f.severity)}: {one_line(f.message)}{_where(f)}" for f in findings[:_LISTED]]
    if len(findings) > _LISTED:
        lines.append(f"  and {len(findings) - _LISTED:,} more")
    return "\n".join(lines)


def snippet(analysis: Analysis) -> str:
    """The same as a self-contained piece of HTML, everything in it escaped."""
    result = verdict(analysis)
    findings = _ordered(analysis)
    rows = Markup("").join(_row(finding) for finding in findings[:_LISTED])
    rest = len(findings) - _LISTED
    more = Markup("<p>and {} more</p>").format(f"{rest:,}") if rest > 0 else ""
    told = [text for text in (engines_line(analysis), result.caveat) if text]
    caveat = Markup("").join(Markup("<p>{}</p>").format(text) for text in told)
    # Own grounds under own inks: a notebook may be dark.
    return str(
        Markup(
            '<div style="background:#fff;color:#1f2328;padding:.5em .8em;border-left:5px solid {};'
            'overflow-wrap:anywhere">'
            "<p>trtdiag · <code>{}</code></p><p><b>{}</b></p>{}<table>{}</table>{}</div>"
        ).format(
            _COLOURS[result.status], one_line(analysis.program.label), one_line(result.text, 1000), caveat, rows, more
        )
    )


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


def _ordered(analysis: Analysis) -> list[Finding]:
    return [finding for tree in cause_trees(analysis.findings) for finding in tree.walk()]


def _where(finding: Finding) -> str:
    frame = next((place.frame for place in finding.places if place.frame is not None), None)
    return f" ({one_line(str(frame))})" if frame else ""
