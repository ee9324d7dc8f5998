"""Findings as the page shows them: by cause, root first, places folded."""

from __future__ import annotations

from collections.abc import Iterable

from trtdiag.analysis.finding import Applicability, Finding, Fix, Impact, Place
from trtdiag.graph.source import Frame
from trtdiag.report.page import Part, cell, fold_label, shown
from trtdiag.report.source_context import source_view
from trtdiag.report.verdict import CauseTree, cause_trees, counts_text, first_frame, severity_word
from trtdiag.wording import amount, bytes_text, listed, one_line, starred, visible

SHOWN_PLACES = 4
_LISTED_PLACES = 36
_SHOWN_EVIDENCE = 6
_SHOWN_MODULES = 3
_LISTED_EVIDENCE = 36
_LONGEST_MESSAGE_CHARS = 1000
_MEANINGS = {
    Applicability.SAFE: "same results for every input that is accepted today",
    Applicability.UNSAFE: "narrows the accepted inputs or changes the numerics",
    Applicability.MANUAL: "needs a decision or an edit by hand",
}


def finding_views(findings: tuple[Finding, ...]) -> list[Part]:
    """The findings, roots first, each with those it causes."""
    return _views(cause_trees(findings), None)


def _views(trees: Iterable[CauseTree], above: Frame | None) -> list[Part]:
    views = []
    for tree in trees:
        views.append(_tree_view(tree, above))
        above = first_frame(tree.finding) or above
    return views


def _tree_view(tree: CauseTree, above: Frame | None) -> Part:
    finding = tree.finding
    framed = first_frame(finding)
    places = _place_views(finding.places, framed)
    evidence = [shown(each, "fact", limit=_LONGEST_MESSAGE_CHARS) | shown(each, "source") for each in finding.evidence]
    caused = _views(tree.caused, framed or above)
    return {
        **shown(finding, "id", "rule", "name"),
        **shown(finding, "title", "severity", limit=_LONGEST_MESSAGE_CHARS),
        "word": severity_word(finding.severity),
        "message": one_line(finding.message, _LONGEST_MESSAGE_CHARS),
        "impact": _impact_words(finding.impact),
        "modules": _modules(finding.places),
        "evidence": evidence[:_SHOWN_EVIDENCE],
        "more_evidence": evidence[_SHOWN_EVIDENCE:_LISTED_EVIDENCE],
        "more_evidence_label": _more(len(evidence), _SHOWN_EVIDENCE, _LISTED_EVIDENCE),
        "where": cell(framed),
        # Lines that stand right above are not shown again: those of the cause, or of the finding before.
        "source": source_view(framed) if framed != above else None,
        "fix": fix_view(finding.fix),
        "places": places[:SHOWN_PLACES],
        "folded": places[SHOWN_PLACES:_LISTED_PLACES],
        "more": _more(len(places), SHOWN_PLACES, _LISTED_PLACES),
        "caused": caused,
        "caused_label": f"causes {counts_text(child.finding for child in tree.caused)}" if caused else "",
    }


def _impact_words(impact: Impact | None) -> str:
    """``costs 2 engines, keeps 14 ops out of engines, 1.6 KiB cross``; empty where it costs nothing."""
    if impact is None:
        return ""
    parts = [f"costs {amount(impact.engines, 'engine')}"] if impact.engines else []
    parts += [f"keeps {amount(impact.ops, 'op')} out of engines"] if impact.ops else []
    if impact.crossing_bytes != 0:
        told = None if impact.crossing_bytes is None else f"{bytes_text(impact.crossing_bytes)} cross at usual sizes"
        parts.append(told or "an unknown amount crosses")
    return ", ".join(parts)


def _modules(places: tuple[Place, ...]) -> str:
    """``layers.*.attn (32 times)``; empty for a single place, which says its module itself."""
    if len(places) < 2:
        return ""
    found = starred([place.module_path for place in places if place.module_path])
    return one_line(listed(found, _SHOWN_MODULES), _LONGEST_MESSAGE_CHARS)


def _more(number: int, shown: int, listed: int) -> str:
    """``28 more``; empty where all are shown."""
    hidden = number - shown
    return fold_label(f"{hidden:,} more", hidden, listed - shown, "all") if hidden > 0 else ""


def fix_view(fix: Fix | None) -> Part | None:
    """What to do, with what it means; ``None`` without a fix."""
    if fix is None:
        return None
    return {
        **shown(fix, "title", "applicability", limit=_LONGEST_MESSAGE_CHARS),
        "meaning": _MEANINGS[fix.applicability],
        "code": visible(fix.code),
    }


def _place_views(places: tuple[Place, ...], above: Frame | None) -> list[Part]:
    views = (
        {
            **shown(place, "node", "op"),
            "module": cell(place.module_path),
            # The line that stands above is not said again at every place.
            "where": cell(place.frame) if place.frame != above else "",
        }
        for place in places
    )
    return [view for view in views if any(view.values())]
