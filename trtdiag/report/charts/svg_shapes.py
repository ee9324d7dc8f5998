"""What pictures of facts are drawn of: rectangles, paths and texts with final coordinates, which a template places."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trtdiag.report.page import Part
from trtdiag.wording import one_line

WIDTH = 760.0
ROW = 24.0
ROOM = 368.0
"""The length of a whole bar of a picture with a row for each thing; left of it stands the name, right the number."""
_CHAR = 6.65  # of the texts
_GAP = 10.0  # between bars and texts
_THIN = 1.5  # a tooth is drawn as a line
_BAR = 14.0
_TOP = 4.0  # above the first row
LABEL_CHARS = 44
"""Own choice: two dims with their ends, ``args[0].shape[2] min, args[0].shape[3] max``, are not cut."""
_TEXT_DROP = 4.0  # from the middle of a row to the base line of its text
SERIES = ("series-1", "series-2", "series-3", "series-4")
"""The inks of what has no colour of its own; legends and labels say the same in words."""


@dataclass(frozen=True)
class Bar:
    """A piece of a row: begin and end as shares of the room for bars, its ink, and what a pointer is told."""

    begin: float
    end: float
    ink: str
    title: str = ""


@dataclass(frozen=True)
class BarRow:
    """A row with its name, its bars from left to right, and the number at its end.

    Attributes:
        name: On its left.
        bars: Each may have a title.
        number: On its right.
        tick: Where a limit is drawn.
        comb: Bars of one ink as one path, for what has many of them.
    """

    name: str
    bars: tuple[Bar, ...]
    number: str = ""
    tick: float | None = None
    comb: tuple[Bar, ...] = ()


def told(value: float) -> str:
    """A coordinate."""
    return f"{value:.1f}".removesuffix(".0")


def _mark(shape: str, classes: str, **own: str) -> Part:
    return {
        "shape": shape,
        "classes": classes,
        **dict.fromkeys(("x", "y", "width", "height", "path", "text", "title"), ""),
        **own,
    }


def rect(x: float, y: float, width: float, height: float, classes: str, title: str = "") -> Part:
    """A rectangle; one too thin to see is drawn a pixel wide."""
    sized = {"width": told(max(1.0, width)), "height": told(height)}
    return _mark("rect", classes, x=told(x), y=told(y), **sized, title=title)


def text(x: float, y: float, words: str, classes: str = "") -> Part:
    """A line of text; ``classes`` says where its point is (``end``, ``middle``), else at its begin."""
    return _mark("text", classes, x=told(x), y=told(y), text=one_line(words))


def path(points: str, classes: str, title: str = "") -> Part:
    """A path in SVG's words."""
    return _mark("path", classes, path=points, title=title)


@dataclass(frozen=True)
class Drawn:
    """Rows with bars, one below the other.

    Attributes:
        marks: What is drawn.
        left: Where bars begin.
        right: Where they end.
        width: Of all.
        height: Where the last row ends.
    """

    marks: list[Part]
    left: float
    right: float
    width: float
    height: float


def chart(
    title: str,
    label: str,
    height: float,
    marks: Iterable[Part],
    table: Part,
    legend: Sequence[tuple[str, str]] = (),
    width: float = WIDTH,
) -> Part:
    """A picture.

    Args:
        title: What it is called.
        label: What it shows, for who cannot see it: one sentence with its result.
        height: In pixels.
        marks: What is drawn, in order.
        table: The same in numbers.
        legend: Inks and what they stand for.
        width: In pixels.
    """
    return {
        "title": title,
        "label": one_line(label, 400),
        "width": told(width),
        "height": told(height),
        "marks": list(marks),
        "legend": [{"classes": ink, "text": words} for ink, words in legend],
        "table": table,
    }


def bar_marks(rows: Sequence[BarRow]) -> Drawn:
    """A row below the other, as wide as names and numbers ask for."""
    marks: list[Part] = []
    left = _GAP + _CHAR * max((len(_short(row.name)) for row in rows), default=0)
    right = left + ROOM
    for at, row in enumerate(rows):
        middle = _TOP + ROW * (at + 0.5)
        marks.append(text(left - _GAP, middle + _TEXT_DROP, _short(row.name), "end"))
        for bar in row.bars:
            begin, end = _ends(bar, left)
            marks.append(rect(begin, middle - _BAR / 2, end - begin, _BAR, bar.ink, bar.title))
        if row.comb:
            marks.append(_comb(row.comb, left, middle))
        if row.tick is not None:
            marks.append(path(f"M{told(left + ROOM * row.tick)} {told(middle - 10)}v20", "limit"))
        marks.append(text(right + _GAP, middle + _TEXT_DROP, row.number))
    numbers = max((len(one_line(row.number)) for row in rows), default=0)
    return Drawn(marks, left, right, math.ceil(right + _GAP + _CHAR * numbers), _TOP + ROW * len(rows) + 4)


def _ends(bar: Bar, left: float) -> tuple[float, float]:
    begin, end = (left + ROOM * min(1.0, max(0.0, each)) for each in (bar.begin, bar.end))
    return begin, end


def _comb(bars: Sequence[Bar], left: float, middle: float) -> Part:
    ends = [_ends(bar, left) for bar in bars]
    top, tall = told(middle - _BAR / 2), told(_BAR)
    if all(end - begin < _THIN for begin, end in ends):  # as lines they take half of the room in the page
        lines = "".join(f"M{told((begin + end) / 2)} {top}v{tall}" for begin, end in ends)
        return path(lines, f"{bars[0].ink} teeth", bars[0].title)
    teeth = (f"M{told(begin)} {top}H{told(max(begin + 1, end))}v{tall}H{told(begin)}z" for begin, end in ends)
    return path("".join(teeth), bars[0].ink, bars[0].title)


def _short(name: str) -> str:
    plain = one_line(name)
    return plain if len(plain) <= LABEL_CHARS else f"{plain[: LABEL_CHARS - 1]}…"
