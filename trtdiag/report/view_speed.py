"""What ``trtdiag bench`` measured, as the page shows it."""

from __future__ import annotations

from trtdiag.report.recorded_times import RecordedTimes, RecordedWay
from trtdiag.report.text import one_line
from trtdiag.report.view import TableView
from trtdiag.report.view_sections import SpeedView, TimesView

_HEADS = ("", "ms", "tenths", "to trtdiag", "computes in", "")
_KINDS = ("", "number", "number", "number")
_LONGEST_WHY_CHARS = 400


def speed_view(found: RecordedTimes) -> SpeedView:
    """The section of the page."""
    return SpeedView(
        summary=one_line(
            f"Milliseconds of a call among others in a row, medians and tenths, on {found.device}; {found.made_with}.",
            _LONGEST_WHY_CHARS,
        ),
        tables=tuple(
            TimesView(f"At {one_line(sizes)}", TableView(_HEADS, tuple(map(_row, ways)), kinds=_KINDS))
            for sizes, ways in found.ways.items()
        ),
    )


def _row(way: RecordedWay) -> tuple[str, ...]:
    tenths = "" if way.low_ms is None or way.high_ms is None else f"{_ms(way.low_ms)}..{_ms(way.high_ms)}"
    return (
        one_line(way.name),
        "" if way.median_ms is None else _ms(way.median_ms),
        tenths,
        "" if way.ratio is None else f"{way.ratio:.2f}x",
        one_line(way.computes),
        one_line(f"cannot run: {way.failed}", _LONGEST_WHY_CHARS) if way.failed else "",
    )


def _ms(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"
