"""What ``trtdiag bench`` measured, as the page shows it."""

from __future__ import annotations

from trtdiag.report.charts.times import ways_chart
from trtdiag.report.comparison import Body, sizes_text
from trtdiag.report.page import Part, table
from trtdiag.wording import LONG_CHARS, amount, one_line

_HEADS = ("", "ms", "tenths", "to trtdiag", "computes in", "")
_KINDS = ("", "number", "number", "number")


def speed_view(bench: Body) -> Part:
    """The section of the page."""
    tensorrt = f", TensorRT {bench['tensorrt']}" if bench["tensorrt"] else ""
    made_with = f"torch {bench['torch']}, engines by {bench['backend']}{tensorrt}, {amount(bench['rounds'], 'round')}"
    return {
        "summary": one_line(
            f"Milliseconds of a call among others in a row, medians and tenths, on {bench['device']}; {made_with}.",
            LONG_CHARS,
        ),
        "tables": [
            {
                "title": f"At {one_line(sizes_text(each['sizes']))}",
                "chart": ways_chart(f"Time of a call at {one_line(sizes_text(each['sizes']))}", each["ways"]),
                "table": table(_HEADS, [_row(way) for way in each["ways"]], kinds=_KINDS),
            }
            for each in bench["results"]
        ],
    }


def _row(way: Body) -> tuple[str, ...]:
    ms = way["ms"]
    return (
        one_line(way["way"]),
        *(("", "") if ms is None else (ms_text(ms["median"]), f"{ms_text(ms['low'])}..{ms_text(ms['high'])}")),
        "" if way["ratio"] is None else f"{way['ratio']:.2f}x",
        one_line(way["computes"]),
        one_line(f"cannot run: {way['failed']}", LONG_CHARS) if way["failed"] else "",
    )


def ms_text(value: float) -> str:
    """Milliseconds in three digits that count."""
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"
