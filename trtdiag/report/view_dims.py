"""Dims as the page shows them: asked, allowed, suggested."""

from __future__ import annotations

from trtdiag.analysis.result import Analysis
from trtdiag.dims.facts import DimSuggestion, DimSystem
from trtdiag.report.charts.ranges import ranges_chart
from trtdiag.report.page import Part
from trtdiag.report.verdict import declared_with_doubt
from trtdiag.report.view_sizes import SHOWN_SITES, data_size_view, input_sizes, size_view
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.wording import amount, listed, one_line, visible

_MOST_ROWS = 100


def dims_view(analysis: Analysis) -> Part:
    """The sizes of the inputs, the code to declare, and what is pinned, tied or in conflict."""
    dims, sizes = analysis.dims, input_sizes(analysis)
    symbols = () if analysis.symbols is None else analysis.symbols.symbols
    born = [data_size_view(each, analysis.profiles.get(each.symbol)) for each in symbols if not each.backed]
    rows = [size_view(size) for size in sizes if size.row.state != "static"] + born
    static = [size for size in sizes if size.row.state == "static"]
    return {
        "rows": rows[:_MOST_ROWS],
        "more": f"{len(rows) - _MOST_ROWS:,} more are in the JSON report" if len(rows) > _MOST_ROWS else "",
        "static": [size_view(size) for size in static[:_MOST_ROWS]],
        "static_label": amount(len(static), "static dim") if static else "",
        "declare": visible(declared_with_doubt(analysis)),
        "ranges": ranges_chart(sizes),
        "suggestions": [_suggestion(s, dims) for s in dims.suggestions],
        "pinned": [
            one_line(f"{p.site} (declared {p.declared}) is always {p.value}: {p.why}", 600) for p in dims.pinned
        ],
        "tied": [
            one_line(
                f"{listed(t.sites, SHOWN_SITES)} (declared {listed(t.declared, SHOWN_SITES)}) are always equal", 600
            )
            for t in dims.tied
        ],
        "conflicts": [
            [one_line(text, 600) for text in (*(each.text for each in conflict.constraints), *conflict.box)]
            for conflict in dims.conflicts
        ],
    }


def _suggestion(suggestion: DimSuggestion, dims: DimSystem) -> Part:
    sites = [row.site for row in dims.rows if row.symbol in suggestion.symbols]
    return {
        "code": visible("\n".join(suggestion.code)),
        "sites": one_line(f"{listed(sites, SHOWN_SITES)}: {suggestion.spelled}" if sites else suggestion.spelled, 600),
        "summary": one_line(suggestion.summary, 600),
        "proof": proof_text(suggestion.proof),
        "proven": suggestion.proof.proven,
        "alternatives": [one_line(text, 600) for text in suggestion.alternatives],
    }


def proof_text(proof: Proof) -> str:
    """``proven: exhaustive, 2,026 values``; ``not proven: 1,000 values sampled``."""
    detail = f" ({one_line(proof.detail, 600)})" if proof.detail else ""
    tried = f", {amount(proof.checked, 'value')}" if proof.checked else ""
    if proof.proven:
        return f"proven: {proof.kind.value}{tried}{detail}"
    if proof.kind is ProofKind.SAMPLED:
        return f"not proven: {amount(proof.checked, 'value')} sampled{detail}"
    return f"not proven{detail}"
