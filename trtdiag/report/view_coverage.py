"""Where each op runs, and what is no work, as the page shows it."""

from __future__ import annotations

from trtdiag.analysis.coverage import NoWork, OpCoverage, no_work, op_coverage
from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.graph.node_kinds import NodeKind
from trtdiag.lower.facts import Checked
from trtdiag.report.page import Part, cells, folded_table, folding_table
from trtdiag.wording import LONG_CHARS, amount, joined, one_line

_KINDS = {
    NodeKind.NO_OP: ("no-op", "hands its input on: nothing runs"),
    NodeKind.ASSERT: ("assert", "checks a condition and computes nothing: it is no fallback"),
    NodeKind.SHAPE: ("size", "computed where it is needed: inside engines from the shapes of their inputs"),
}


def coverage_view(facts: PartitionFacts) -> Part:
    """The table of ops: those with calls in PyTorch first."""
    found = op_coverage(facts)
    whole = [each for each in found if not each.in_pytorch]
    text = f"{amount(len(found), 'kind')} of ops after lowering: {amount(len(whole), 'kind')} wholly in engines"
    if len(whole) < len(found):
        text += f", {len(found) - len(whole):,} with calls in PyTorch"
    heads = ("op", "calls", "engine", "PyTorch", "no work", "reason")
    kinds = ("code", "number", "number", "number", "number")
    rows = []
    for each in found:
        numbers = (each.calls, each.in_engines, each.in_pytorch, each.idle)
        rows.append((one_line(each.op), *(f"{number:,}" if number else "·" for number in numbers), _reason(each)))
    if len(whole) == len(found):
        return {
            "summary": f"{amount(len(found), 'kind')} of ops after lowering, none with calls in PyTorch.",
            "table": folded_table(heads, rows, amount(sum(each.calls for each in found), "call"), kinds),
        }
    return {"summary": f"{text}.", "table": folding_table(heads, rows, kinds)}


def _reason(each: OpCoverage) -> str:
    if not each.reasons:
        return ""
    code, why, times = each.reasons[0]
    rest = len(each.reasons) - 1
    count = f" ({times:,} of {each.in_pytorch:,} calls)" if rest else ""
    more = f"; {amount(rest, 'other reason')}" if rest else ""
    return one_line(f"{why} [{code}]{count}{more}", LONG_CHARS)


def no_work_view(checked: Checked, facts: PartitionFacts | None) -> Part | None:
    """What is no fallback though no engine holds it; ``None`` where the graph has nothing of the kind."""
    found = no_work(checked)
    passes = []
    if facts is not None:
        lowered = facts.plan.lowered
        passes = [cells(each.name, each.changed) for each in lowered.passes if each.changed]
    if not found and not passes:
        return None
    return {
        "summary": _summary(found),
        "table": folding_table(
            ("op", "calls", "kind", "what becomes of it"),
            [(*cells(each.op, each.calls), *_KINDS[each.kind]) for each in found],
            ("code", "number"),
        ),
        "passes": folding_table(("lowering", "nodes changed or removed"), passes, ("", "number")),
    }


def _summary(found: tuple[NoWork, ...]) -> str:
    counts = {kind: sum(each.calls for each in found if each.kind is kind) for kind in _KINDS}
    told = [amount(counts[kind], word) for kind, (word, _) in _KINDS.items() if counts[kind]]
    if not told:
        return "The exported graph has no asserts, no-ops or computations of sizes."
    if sum(counts.values()) == 1:
        return f"Of the exported graph {told[0]} is no work for an engine, and not counted as a fallback."
    return f"Of the exported graph {joined(told)} are no work for an engine, and none of them is counted as a fallback."
