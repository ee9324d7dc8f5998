"""The largest difference from the original at each set of sizes, beside what is allowed, on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Mapping

from trtdiag.report.charts.svg_shapes import LABEL_CHARS, Bar, BarRow, bar_marks, chart, text
from trtdiag.report.compile_words import point_label
from trtdiag.report.page import Part, table
from trtdiag.verification.facts import OutputError, PointResult, Verification
from trtdiag.verification.points import point_sizes
from trtdiag.wording import LONG_CHARS, amount, one_line

_MOST_POINTS = 24
_LEAST_DECADES = 4


def errors_chart(found: Verification, names: Mapping[str, str]) -> Part | None:
    """The picture: for each point the output that is worst for its tolerance; ``None`` where no point was compared."""
    compared = [(result, _worst(result)) for result in found.results if result.outputs][:_MOST_POINTS]
    worst = [(result, output) for result, output in compared if 0 < output.allowed < math.inf]
    if not worst:
        return None
    numbers = [value for _, each in worst for value in (each.max_abs, each.allowed) if 0 < value < math.inf]
    high = math.ceil(math.log10(max(numbers)))
    low = min(math.floor(math.log10(min(numbers))), high - _LEAST_DECADES)

    def share(value: float) -> float:
        if not value > 0:
            return 1.0 if math.isnan(value) else 0.0
        return min(1.0, (math.log10(value) - low) / (high - low))

    rows = [
        BarRow(
            _name(result, names),
            (Bar(0.0, share(output.max_abs), "series-1" if output.passed else "wrong", output.output),),
            f"{output.max_abs:.2g} of {output.allowed:.2g}",
            share(output.allowed),
        )
        for result, output in worst
    ]
    drawn = bar_marks(rows)
    scale = text(drawn.left, drawn.height + 12, f"1e{low}"), text(drawn.right, drawn.height + 12, f"1e{high}", "end")
    wrong = sum(not output.passed for _, output in worst)
    label = f"Largest difference at {amount(len(worst), 'set')} of sizes beside what is allowed, in powers of ten; "
    label += f"{wrong} are beyond it." if wrong else "all are within it."
    legend = [("series-1", "largest difference"), ("limit", "allowed")] + ([("wrong", "beyond it")] if wrong else [])
    lines = [
        (_name(result, names), one_line(output.output), f"{output.max_abs:.3g}", f"{output.allowed:.3g}")
        for result, output in worst
    ]
    numbers_table = table(("at", "output", "max abs", "allowed abs"), lines, kinds=("", "code", "number", "number"))
    return chart(
        "Difference by set of sizes",
        label,
        drawn.height + 18,
        [*drawn.marks, *scale],
        numbers_table,
        legend,
        drawn.width,
    )


def _worst(result: PointResult) -> OutputError:
    """The output that is nearest to its limit, or farthest beyond."""
    return max(result.outputs, key=lambda output: (not output.passed, output.max_abs / (output.allowed or 1.0)))


def _name(result: PointResult, names: Mapping[str, str]) -> str:
    sizes, label = point_sizes(result.point.sizes, names), point_label(result.point, names)
    # Sizes that do not stand there whole begin alike at every point.
    return one_line(sizes if sizes and len(sizes) <= LABEL_CHARS else label, LONG_CHARS)
