"""Ranges as bars: what was asked for each size, what is allowed, and what the proposed declaration keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trtdiag.report.charts.svg_shapes import Bar, BarRow, bar_marks, chart
from trtdiag.report.page import Part, table
from trtdiag.report.view_sizes import DOUBTFUL, Kept, Size, kept_words, residue_words
from trtdiag.symbolic import Range, ValueSet

_MOST_SIZES = 12
_MOST_PIECES = 128
"""Own choice: more pieces in one bar run into each other; then it is drawn whole, and its words say the pattern."""
_ASKED, _ALLOWED, _KEPT = "asked", "series-2", "series-1"


def ranges_chart(sizes: Sequence[Size]) -> Part | None:
    """The picture of the sizes that can move; ``None`` where all that was asked is allowed and kept."""
    moving = [size for size in sizes if size.row.state != "static" and _top(size) is not None][:_MOST_SIZES]
    if not any(size.row.admits is not None or _is_narrower(size) for size in moving):
        return None
    rows: list[BarRow] = []
    lines = []
    for size in moving:
        rows += _rows(size)
        lines.append(_line(size))
    drawn = bar_marks(rows)
    wrong = [size for size in moving if size.row.admits is not None]
    label = f"Asked, allowed and kept sizes of {len(moving)} dims of the inputs, each over its own range; "
    known = "" if all(size.row.state not in DOUBTFUL for size in moving) else ", as far as guards are known"
    label += (
        f"{len(wrong)} of them allow less than was asked{known}." if wrong else f"all that was asked is allowed{known}."
    )
    heads = ("size", "asked", "allowed", "kept")
    legend = ((_ASKED, "asked"), (_ALLOWED, "allowed"), (_KEPT, "kept by what to declare"))
    return chart(
        "Ranges", label, drawn.height, drawn.marks, table(heads, lines, kinds=("code",)), legend, width=drawn.width
    )


def _top(size: Size) -> int | None:
    """The greatest size that is drawn: of an open range the greatest that anything names."""
    if size.row.range.max is not None:
        return size.row.range.max
    ends = [*((size.kept.high, size.kept.low) if size.kept else ())]
    ends += [] if size.profile is None else [size.profile.max, size.profile.opt * 2]
    return max((end for end in ends if end is not None), default=None)


def _is_narrower(size: Size) -> bool:
    """Whether what to declare keeps less than was asked."""
    return size.kept is not None and size.kept != Kept(size.row.range.min or 0, size.row.range.max, 1)


def _rows(size: Size) -> Iterator[BarRow]:
    row, top = size.row, _top(size) or 1
    low = row.range.min or 0
    room = max(1, top - low + 1)

    def bar(begin: int, end: int | None, ink: str, title: str) -> Bar:
        last = top if end is None else end
        return Bar((begin - low) / room, (last - low + 1) / room, ink, title)

    yield BarRow(size.name or size.sites, (bar(low, row.range.max, _ASKED, f"asked {row.range}"),), f"{row.range}")
    if row.admits is not None:
        pieces = tuple(bar(*each, _ALLOWED, f"allowed {row.allowed}") for each in _pieces(row.admits, low, top))
        yield BarRow(
            "allowed", (), residue_words(row.admits) or str(Range(row.admits.min, row.admits.max)), comb=pieces
        )
    if size.kept is not None and (row.admits is not None or _is_narrower(size)):
        words = kept_words(size.kept)
        kept = tuple(bar(*each, _KEPT, words) for each in _spans(size.kept, low, top))
        yield BarRow("kept", (), words, comb=kept)


def _pieces(values: ValueSet, low: int, top: int) -> list[tuple[int, int | None]]:
    """The runs of a set that are drawn; from its first to its last member where they are too many."""
    runs: list[list[int]] = []
    value = values.at_least(low)
    while value is not None and value <= top:
        if runs and runs[-1][1] == value - 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
        if len(runs) > _MOST_PIECES or runs[-1][1] - runs[-1][0] > _MOST_PIECES:
            return [(runs[0][0], values.max)]
        value = values.at_least(value + 1)
    return [(begin, end) for begin, end in runs]


def _spans(kept: Kept, low: int, top: int) -> list[tuple[int, int | None]]:
    last = top if kept.high is None else min(top, kept.high)
    if kept.step == 1 or (last - kept.low) // kept.step > _MOST_PIECES:
        return [(max(low, kept.low), kept.high)]
    return [(each, each) for each in range(kept.low, last + 1, kept.step)]


def _line(size: Size) -> tuple[str, ...]:
    row = size.row
    pattern = residue_words(row.admits)
    allowed = f"{row.allowed}{f' ({pattern})' if pattern else ''}" if row.admits is not None else f"{row.range}"
    return size.name or size.sites, f"{row.range}", allowed, "" if size.kept is None else kept_words(size.kept)
