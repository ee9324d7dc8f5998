"""Dims, symbols and guards as the page shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from trtdiag.dims.facts import Constraint, DimRow, DimSuggestion, DimSystem, Verdict
from trtdiag.report.source_context import source_view
from trtdiag.report.text import amount, one_line, share_text, values_text, visible
from trtdiag.report.view import DimRowView, DimsView, GuardView, SuggestionView, SymbolView, UnparsedView
from trtdiag.shapes.facts import SymbolFacts, SymbolTable
from trtdiag.symbolic.proof import Proof, ProofKind

_STATES = {
    "ok": "ok",
    "breaks": "refuses declared values",
    "pinned": "one value only",
    "unbounded": "no upper bound",
    "static": "static",
}
_GUARD_ORDER = (Verdict.BREAKS, Verdict.UNKNOWN, Verdict.HOLDS)
_SHOWN_EXPRESSIONS = 6
_LONGEST_CONDITION_CHARS = 2000


def dims_view(dims: DimSystem) -> DimsView:
    """The dims table, the code to declare, and what is pinned, tied or in conflict."""
    return DimsView(
        rows=tuple(_row(row) for row in dims.rows),
        suggestions=tuple(_suggestion(s, dims) for s in dims.suggestions),
        pinned=tuple(
            one_line(f"{p.site} (declared {p.declared}) is always {p.value}: {p.why}", 600) for p in dims.pinned
        ),
        tied=tuple(
            one_line(f"{' and '.join(t.sites)} (declared {', '.join(t.declared)}) are always equal", 600)
            for t in dims.tied
        ),
        conflicts=tuple(
            (*(one_line(c.text, 600) for c in conflict.constraints), *(one_line(text, 600) for text in conflict.box))
            for conflict in dims.conflicts
        ),
    )


def _row(row: DimRow) -> DimRowView:
    return DimRowView(
        site=one_line(row.site),
        symbol=one_line(row.symbol or ""),
        declared=one_line(row.declared),
        range=str(row.range),
        allowed=one_line(row.allowed, 600),
        suggested=one_line(row.suggested, 600),
        state=row.state,
        label=_STATES.get(row.state, row.state),
    )


def _suggestion(suggestion: DimSuggestion, dims: DimSystem) -> SuggestionView:
    sites = [row.site for row in dims.rows if row.symbol in suggestion.symbols]
    return SuggestionView(
        code=visible("\n".join(suggestion.code)),
        sites=one_line(f"{', '.join(sites)}: {suggestion.spelled}" if sites else suggestion.spelled, 600),
        summary=one_line(suggestion.summary, 600),
        proof=proof_text(suggestion.proof),
        proven=suggestion.proof.proven,
        alternatives=tuple(one_line(text, 600) for text in suggestion.alternatives),
    )


def proof_text(proof: Proof) -> str:
    """``proven: exhaustive, 2,026 values``; ``not proven: 1,000 values sampled``."""
    detail = f" ({one_line(proof.detail, 600)})" if proof.detail else ""
    tried = f", {amount(proof.checked, 'value')}" if proof.checked else ""
    if proof.proven:
        return f"proven: {proof.kind.value}{tried}{detail}"
    if proof.kind is ProofKind.SAMPLED:
        return f"not proven: {amount(proof.checked, 'value')} sampled{detail}"
    return f"not proven{detail}"


def symbol_views(table: SymbolTable) -> tuple[SymbolView, ...]:
    """The rows of the symbol table."""
    return tuple(_symbol(facts) for facts in table.symbols)


def _symbol(facts: SymbolFacts) -> SymbolView:
    born = ""
    if facts.born_by:
        born = one_line(facts.born_by + (f" at {facts.born_at}" if facts.born_at else ""))
    shown = facts.expressions[:_SHOWN_EXPRESSIONS]
    rest = len(facts.expressions) - len(shown)
    expressions = ", ".join(one_line(text, 120) for text in shown) + (f" and {rest:,} more" if rest else "")
    return SymbolView(
        symbol=one_line(facts.symbol),
        name=one_line(facts.name),
        kind="from an input" if facts.backed else "from data",
        range=str(facts.range) if facts.range is not None else "none",
        bounded=facts.range is not None and facts.range.bounded,
        hint="" if facts.hint is None else f"{facts.hint:,}",
        origins=one_line(", ".join(facts.origins), 400),
        born=born,
        uses=f"{facts.uses:,}",
        expressions=expressions,
    )


def guards_summary(dims: DimSystem) -> str:
    """``12 guards: 1 breaks, 11 hold; 2 more could not be read``."""
    counts = Counter(constraint.verdict for constraint in dims.constraints)
    words = {Verdict.BREAKS: ("breaks", "break"), Verdict.UNKNOWN: ("undecided",) * 2, Verdict.HOLDS: ("holds", "hold")}
    parts = [f"{counts[v]:,} {one if counts[v] == 1 else many}" for v, (one, many) in words.items() if counts[v]]
    text = f"{amount(len(dims.constraints), 'guard')}: {', '.join(parts)}" if parts else "No guard was read"
    return text + (f"; {len(dims.unparsed):,} could not be read" if dims.unparsed else "")


def guard_views(constraints: Iterable[Constraint]) -> tuple[GuardView, ...]:
    """The guards, broken ones first, then in torch's order."""
    ordered = sorted(constraints, key=lambda constraint: _GUARD_ORDER.index(constraint.verdict))
    return tuple(_guard(constraint) for constraint in ordered)


def _guard(constraint: Constraint) -> GuardView:
    origin = constraint.origin
    cause = ""
    if origin.op or origin.node:
        cause = "op " + " ".join(one_line(text) for text in (origin.op, origin.node) if text)
    elif origin.branch:
        cause = "a Python condition on a size"
    return GuardView(
        verdict=constraint.verdict.value,
        text=one_line(constraint.text, _LONGEST_CONDITION_CHARS),
        counterexample=one_line(values_text(constraint.counterexample), 600),
        witness=one_line(values_text(constraint.witness), 600),
        allowed=one_line(constraint.allowed or share_text(constraint.kept), 600),
        note=_note(constraint),
        proof=proof_text(constraint.proof),
        proven=constraint.proof.proven,
        found_in=one_line(", ".join(origin.found_in)),
        cause=cause,
        source=source_view(origin.stack.best),
    )


def _note(constraint: Constraint) -> str:
    if constraint.follows:
        return "only where another guard of the same sizes breaks too"
    return "only where a size is 0" if constraint.only_at_zero else ""


def unparsed_views(dims: DimSystem) -> tuple[UnparsedView, ...]:
    """The guards that could not be read."""
    return tuple(
        UnparsedView(one_line(g.text, _LONGEST_CONDITION_CHARS), one_line(g.why, 600), one_line(g.found_in))
        for g in dims.unparsed
    )
