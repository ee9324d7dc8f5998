"""What quantizing a program costs, for the terminal and the page."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from trtdiag.calibration.facts import OpLoss, QuantizationFacts
from trtdiag.report.page import Part, cells, folding_table
from trtdiag.report.terminal_layout import hanging, plain_table
from trtdiag.wording import amount, one_line

_SHOWN = 5
_MEASURE = "root mean squares"
_HEADS = ("op", "module or node", "error by itself", "signal to noise", "outputs with it in float")
_KINDS = ("", "", "number", "number", "number")


def summary(facts: QuantizationFacts) -> str:
    """All in a sentence or two."""
    kept = f", {facts.kept:,} more kept in floats" if facts.kept else ""
    measured = "" if facts.measured == facts.batches else f", errors are of {facts.measured:,} of them"
    batches = amount(facts.batches, "batch", "batches")
    return (
        f"{amount(len(facts.ops), 'op')} quantized to INT8{kept}; scales are of {batches}{measured}. "
        f"The outputs are off by {percent(facts.error)} of their size ({_MEASURE}); "
        "engines are compared with the quantized program."
    )


def percent(error: float) -> str:
    """An error in two digits that count."""
    if not math.isfinite(error):
        return "all"
    return "0 %" if error == 0 else f"{error:.2g}" if error >= 10 else f"{100 * error:.2g} %"


def quantization_text(facts: QuantizationFacts) -> RenderableType:
    """The summary, and the ops that lose most."""
    parts: list[RenderableType] = [hanging(2, summary(facts))]
    told = facts.ops[:_SHOWN] if facts.error else ()
    if told:
        parts.append(Text("  What each op loses, and what the outputs lose with that op alone in float:"))
        table = plain_table(words=("op",), numbers=("loses", "outputs"))
        for loss in told:
            table.add_row(Text(_name(loss)), percent(loss.error), _without(loss))
        parts.append(Padding(table, (0, 0, 1, 4)))
    return Group(*parts)


def quantization_view(facts: QuantizationFacts) -> Part:
    """The part of the page: every op, the one that loses most first."""
    return {
        "summary": summary(facts),
        "ops": folding_table(_HEADS, list(_rows(facts)), _KINDS),
    }


def _rows(facts: QuantizationFacts) -> Iterator[tuple[str, ...]]:
    for loss in facts.ops:
        ratio = "" if loss.snr_db is None else f"{loss.snr_db:.0f} dB"
        yield cells(loss.op, loss.module or loss.node, percent(loss.error), ratio, _without(loss))


def _name(loss: OpLoss) -> str:
    return one_line(f"{loss.op} ({loss.module})" if loss.module else f"{loss.op} ({loss.node})")


def _without(loss: OpLoss) -> str:
    return "" if loss.error_without is None else percent(loss.error_without)
