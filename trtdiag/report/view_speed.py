"""What ``trtdiag bench`` measured, as the page shows it."""

from __future__ import annotations

from trtdiag.report.page import Part, table
from trtdiag.report.record import RecordedTimes, RecordedWay
from trtdiag.report.text import one_line

_HEADS = ("", "ms", "tenths", "to trtdiag", "computes in", "")
_KINDS = ("", "number", "number", "number")
_LONGEST_WHY_CHARS = 400


def speed_view(found: RecordedTimes) -> Part:
    """The section of the page."""
    tensorrt = f", TensorRT {found.tensorrt}" if found.tensorrt else ""
    made_with = f"torch {found.torch}, engines by {found.backend}{tensorrt}, {found.rounds} rounds"
    return {
        "summary": one_line(
            f"Milliseconds of a call among others in a row, medians and tenths, on {found.device}; {made_with}.",
            _LONGEST_WHY_CHARS,
        ),
        "tables": [
            {
                "title": f"At {one_line(each.where)}",
                "table": table(_HEADS, tuple(map(_row, each.ways)), kinds=_KINDS),
            }
            for each in found.results
        ],
    }


def _row(way: RecordedWay) -> tuple[str, ...]:
    return (
        one_line(way.way),
        *(("", "") if way.ms is None else (_ms(way.ms.median), f"{_ms(way.ms.low)}..{_ms(way.ms.high)}")),
        "" if way.ratio is None else f"{way.ratio:.2f}x",
        one_line(way.computes),
        one_line(f"cannot run: {way.failed}", _LONGEST_WHY_CHARS) if way.failed else "",
    )


def _ms(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"
