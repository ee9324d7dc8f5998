"""Guards as the page shows them: those that break or are undecided in full, those that hold in a table."""

from __future__ import annotations

from collections import Counter

from trtdiag.dims.facts import Constraint, DimSystem, Verdict
from trtdiag.report.page import Part, cells, shown, table
from trtdiag.report.source_context import source_view
from trtdiag.report.view_dims import proof_text
from trtdiag.wording import amount, one_line, share_text, values_text

_MOST_GUARDS = 60
_MOST_HOLDING = 200
_MOST_UNPARSED = 200
_LONGEST_CONDITION_CHARS = 2000


def guards_view(dims: DimSystem) -> Part:
    """Every guard, the broken ones first; what a page has no room for is counted."""
    breaks, unknown, holding = (
        [each for each in dims.constraints if each.verdict is verdict]
        for verdict in (Verdict.BREAKS, Verdict.UNKNOWN, Verdict.HOLDS)
    )
    troubled = breaks + unknown
    return {
        "summary": guards_summary(dims),
        "troubled": [_guard(constraint) for constraint in troubled[:_MOST_GUARDS]],
        "more": _more(len(troubled), _MOST_GUARDS),
        "holding": _holding_table(holding),
        "holding_label": f"{amount(len(holding), 'guard')} that {'holds' if len(holding) == 1 else 'hold'}",
        "unparsed": [
            shown(each, "text", limit=_LONGEST_CONDITION_CHARS)
            | shown(each, "why", limit=600)
            | shown(each, "found_in")
            for each in dims.unparsed[:_MOST_UNPARSED]
        ],
        "more_unparsed": _more(len(dims.unparsed), _MOST_UNPARSED),
    }


def _more(number: int, shown: int) -> str:
    return f"{number - shown:,} more are in the JSON report" if number > shown else ""


def _holding_table(holding: list[Constraint]) -> Part | None:
    if not holding:
        return None
    rows = [
        (
            one_line(each.text, 400),
            proof_text(each.proof),
            *cells(", ".join(each.origin.found_in), each.origin.stack.best),
        )
        for each in holding[:_MOST_HOLDING]
    ]
    if len(holding) > _MOST_HOLDING:
        rows.append((_more(len(holding), _MOST_HOLDING), "", "", ""))
    return table(("guard", "proof", "found in", "line"), rows)


def guards_summary(dims: DimSystem) -> str:
    """``12 guards: 1 breaks, 11 hold; 2 could not be read``."""
    counts = Counter(constraint.verdict for constraint in dims.constraints)
    words = {Verdict.BREAKS: ("breaks", "break"), Verdict.UNKNOWN: ("undecided",) * 2, Verdict.HOLDS: ("holds", "hold")}
    parts = [f"{counts[v]:,} {one if counts[v] == 1 else many}" for v, (one, many) in words.items() if counts[v]]
    if not parts:
        return f"{amount(len(dims.unparsed), 'guard')} could not be read" if dims.unparsed else "No guard was recorded"
    text = f"{amount(len(dims.constraints), 'guard')}: {', '.join(parts)}"
    return text + (f"; {len(dims.unparsed):,} could not be read" if dims.unparsed else "")


def _guard(constraint: Constraint) -> Part:
    origin = constraint.origin
    cause = ""
    if origin.op or origin.node:
        cause = "op " + " ".join(one_line(text) for text in (origin.op, origin.node) if text)
    elif origin.branch:
        cause = "a Python condition on a size"
    return {
        "verdict": constraint.verdict.value,
        "text": one_line(constraint.text, _LONGEST_CONDITION_CHARS),
        "counterexample": one_line(values_text(constraint.counterexample), 600),
        "witness": one_line(values_text(constraint.witness), 600),
        "allowed": one_line(constraint.allowed or share_text(constraint.kept), 600),
        "note": _note(constraint),
        "proof": proof_text(constraint.proof),
        "proven": constraint.proof.proven,
        "found_in": one_line(", ".join(origin.found_in)),
        "cause": cause,
        "source": source_view(origin.stack.best, around=0),  # the finding about it has the lines around
    }


def _note(constraint: Constraint) -> str:
    if constraint.origin.asked is not None:
        return "an op asks for it, and no guard ensures it"
    if constraint.follows:
        return "only where another guard of the same sizes breaks too"
    return "only where a size is 0" if constraint.only_at_zero else ""
