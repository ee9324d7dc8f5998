"""What is computed in half precision, and what stays in float32, as the page shows it."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.grouping import grouped
from trtdiag.lower.precision.facts import PrecisionFacts
from trtdiag.options import Precision
from trtdiag.report.page import Long, Part, cells, folding_table
from trtdiag.wording import amount, listed, one_line

_MOST_LINES = 3


def precision_view(facts: PrecisionFacts) -> Part:
    """The ops that stay in float32 by reason, the most frequent first."""
    alike = grouped(((each.target, each.why), each) for each in facts.stays)
    rows = [
        (
            *cells(target, len(found), Long(reason)),
            _few([each.origin.module_path for each in found]),
            _few([each.origin.stack.best for each in found]),
        )
        for (target, reason), found in sorted(alike.items(), key=lambda item: -len(item[1]))
    ]
    # Under int8 quantizers stand between ops of float16, which engines fuse with them.
    name = Precision.FP16.value if facts.precision is Precision.INT8 else facts.precision.value
    computes = "computes" if facts.lowered_ops == 1 else "compute"
    stays = f"{len(facts.stays):,} {'stays' if len(facts.stays) == 1 else 'stay'} in float32"
    summary = f"{amount(facts.lowered_ops, 'op')} {computes} in {name}, {stays}; {amount(facts.casts, 'cast')} for it."
    unmatched = ", ".join(one_line(entry) for entry in facts.unmatched)
    if unmatched:
        summary += f" keep_fp32 names nothing in this program with: {unmatched}."
    return {
        "title": f"Computed in {name}",
        "summary": summary,
        "stays": folding_table(("op", "calls", "stays in float32 because", "module", "line"), rows),
    }


def _few(found: Sequence[object]) -> str:
    return listed([text for text in cells(*dict.fromkeys(found)) if text], _MOST_LINES)
