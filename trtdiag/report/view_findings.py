"""Findings as the page shows them: by cause, root first, those that are alike once, places folded."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from trtdiag.analysis.finding import Applicability, Evidence, Finding, Fix, Impact, Place
from trtdiag.analysis.places import line_evidence
from trtdiag.graph.source import Frame
from trtdiag.report.page import Part, cell, fold_label, shown
from trtdiag.report.similar_findings import SimilarFindings, similar_findings
from trtdiag.report.source_context import source_view
from trtdiag.report.verdict import CauseTree, cause_trees, counts_text, first_frame, severity_word
from trtdiag.wording import amount, bytes_text, listed, one_line, starred, visible

SHOWN_PLACES = 4
_LISTED_PLACES = 36
_SHOWN_EVIDENCE = 6
_SHOWN_MODULES = 3
_SHOWN_OTHERS = 6
_LISTED_ALIKE = 100
_LISTED_EVIDENCE = 36
_LONGEST_MESSAGE_CHARS = 1000
_MEANINGS = {
    Applicability.SAFE: "same results for every input that is accepted today",
    Applicability.UNSAFE: "narrows the inputs or changes numerics",
    Applicability.MANUAL: "needs a decision or an edit",
}


def finding_views(findings: tuple[Finding, ...], declared: str | None = None) -> list[Part]:
    """The findings, roots first, each with those it causes; those that differ in names alone are one with a count.

    Args:
        findings: All of them.
        declared: The code that stands in the section on dims, and is not said again with each fix that asks for it.
    """
    return _views(cause_trees(findings), None, declared)


def _views(trees: Iterable[CauseTree], above: Frame | None, declared: str | None) -> list[Part]:
    views = []
    for found in similar_findings(trees):
        views.append(_view(found, above, declared))
        above = first_frame(found.finding) or above
    return views


def _view(found: SimilarFindings, above: Frame | None, declared: str | None) -> Part:
    finding, count = found.finding, len(found.trees)
    framed = first_frame(finding)
    every = tuple(place for tree in found.trees for place in tree.finding.places)
    places = _place_views(every, framed)
    source = source_view(framed) if framed != above else None
    # Nor is the line said again below its own source.
    evidence = _evidence(finding, line_evidence(framed) if source is not None else ())
    caused = _views(found.caused, framed or above, declared)
    alike = [tree.finding for tree in found.trees[1 : 1 + _LISTED_ALIKE]]
    return {
        **shown(finding, "id", "rule", "name"),
        **shown(finding, "title", "severity", limit=_LONGEST_MESSAGE_CHARS),
        "word": severity_word(finding.severity),
        "count": f"x{count:,}" if count > 1 else "",
        "message": one_line(finding.message, _LONGEST_MESSAGE_CHARS),
        "also": one_line(listed(found.others, _SHOWN_OTHERS), _LONGEST_MESSAGE_CHARS),
        "impact": _impact_words(finding.impact),
        "modules": _modules(every),
        "evidence": evidence[:_SHOWN_EVIDENCE],
        "more_evidence": evidence[_SHOWN_EVIDENCE:_LISTED_EVIDENCE],
        "more_evidence_label": _more(len(evidence), _SHOWN_EVIDENCE, _LISTED_EVIDENCE),
        "where": cell(framed),
        # Lines that stand right above are not shown again: those of the cause, or of the finding before.
        "source": source,
        "fix": fix_view(finding.fix, declared),
        "places": places[:SHOWN_PLACES],
        "folded": places[SHOWN_PLACES:_LISTED_PLACES],
        "more": _more(len(places), SHOWN_PLACES, _LISTED_PLACES),
        "alike": [_alike(each, framed) for each in alike],
        "alike_label": fold_label(f"{count - 1:,} more like it", count - 1, _LISTED_ALIKE) if count > 1 else "",
        "caused": caused,
        "caused_label": f"causes {counts_text(child.finding for child in found.caused)}" if caused else "",
    }


def _evidence(finding: Finding, known: Collection[Evidence] = ()) -> list[Part]:
    told = (each for each in finding.evidence if each not in known)
    return [shown(each, "fact", limit=_LONGEST_MESSAGE_CHARS) | shown(each, "source") for each in told]


def _alike(finding: Finding, above: Frame | None) -> Part:
    """A finding below another that says the same of other names."""
    frame = first_frame(finding)
    return {
        **shown(finding, "id"),
        "message": one_line(finding.message, _LONGEST_MESSAGE_CHARS),
        "where": cell(frame) if frame != above else "",
        "evidence": _evidence(finding)[:_SHOWN_EVIDENCE],
    }


def _impact_words(impact: Impact | None) -> str:
    """``Costs 2 engines, keeps 14 ops out of engines, moves 1.6 KiB in and out``; empty where it costs nothing."""
    if impact is None:
        return ""
    parts = [f"costs {amount(impact.engines, 'engine')}"] if impact.engines else []
    parts += [f"keeps {amount(impact.ops, 'op')} out of engines"] if impact.ops else []
    if impact.crossing_bytes != 0:
        moved = "unknown bytes" if impact.crossing_bytes is None else bytes_text(impact.crossing_bytes)
        parts.append(f"moves {moved} between engines and PyTorch (usual sizes)")
    told = ", ".join(parts)
    return told[:1].upper() + told[1:]


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


def fix_view(fix: Fix | None, declared: str | None = None) -> Part | None:
    """What to do, with what it means; ``None`` without a fix.

    Args:
        fix: Of a finding.
        declared: The code that stands in the section on dims: a fix with this code leads there.
    """
    if fix is None:
        return None
    see = declared is not None and fix.code.rstrip("\n") == declared
    return {
        **shown(fix, "title", "applicability", limit=_LONGEST_MESSAGE_CHARS),
        "meaning": _MEANINGS[fix.applicability],
        "code": "" if see else visible(fix.code),
        "see": see,
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
    # Findings that are alike may have one place, which is told once.
    told = {tuple(view.values()): view for view in views if any(view.values())}
    return list(told.values())
