"""Dims as the page shows them: asked, allowed, suggested."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trtdiag.dims.facts import DimRow, DimSuggestion, DimSystem
from trtdiag.grouping import grouped
from trtdiag.report.page import Part, shown
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.wording import amount, listed, one_line, visible

STATES = {
    "breaks": "refuses declared values",
    "pinned": "one value only",
    "unbounded": "no upper bound",
}
SHOWN_SITES = 3


def dims_view(dims: DimSystem) -> Part:
    """The dims table, the code to declare, and what is pinned, tied or in conflict."""
    static = [row for row in dims.rows if row.state == "static"]
    return {
        "rows": [_row(alike) for alike in _alike(row for row in dims.rows if row.state != "static")],
        "static": [_row([row]) for row in static],
        "static_label": amount(len(static), "static dim") if static else "",
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


def _alike(rows: Iterable[DimRow]) -> list[list[DimRow]]:
    """The rows by all but their site: one size in thirty inputs is one line of the table."""
    # A dim without a symbol has nothing in common with another one but its numbers.
    return list(grouped((row if row.symbol is None else replace(row, site=""), row) for row in rows).values())


def _row(alike: Sequence[DimRow]) -> Part:
    row = alike[0]
    return {
        "site": one_line(listed([same.site for same in alike], SHOWN_SITES)),
        **shown(row, "declared", "range"),
        **shown(row, "allowed", "suggested", "state", limit=600),
        "label": STATES.get(row.state, row.state),
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
