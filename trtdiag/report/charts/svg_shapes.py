"""What pictures of facts are drawn of: rectangles, paths and texts with final coordinates, which a template places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trtdiag.report.page import Part
from trtdiag.wording import one_line

WIDTH = 760.0
ROW = 24.0
LEFT, RIGHT = 232.0, 600.0
"""Where the bars of a picture with a row for each thing begin and end; left of them the names, right the numbers."""
_BAR = 14.0
_LABEL_CHARS = 32
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


def chart(
    title: str, label: str, height: float, marks: Iterable[Part], table: Part, legend: Sequence[tuple[str, str]] = ()
) -> Part:
    """A picture.

    Args:
        title: What it is called.
        label: What it shows, for who cannot see it: one sentence with its result.
        height: In pixels, for ``WIDTH``.
        marks: What is drawn, in order.
        table: The same in numbers.
        legend: Inks and what they stand for.
    """
    return {
        "title": title,
        "label": one_line(label, 400),
        "width": told(WIDTH),
        "height": told(height),
        "marks": list(marks),
        "legend": [{"classes": ink, "text": words} for ink, words in legend],
        "table": table,
    }


def bar_marks(rows: Sequence[BarRow], top: float = 4.0) -> tuple[list[Part], float]:
    """A row below the other, and where the last ends."""
    marks: list[Part] = []
    for at, row in enumerate(rows):
        middle = top + ROW * (at + 0.5)
        marks.append(text(LEFT - 10, middle + _TEXT_DROP, _short(row.name), "end"))
        for bar in row.bars:
            begin, end = _ends(bar)
            marks.append(rect(begin, middle - _BAR / 2, end - begin, _BAR, bar.ink, bar.title))
        if row.comb:
            marks.append(_comb(row.comb, middle))
        if row.tick is not None:
            marks.append(path(f"M{told(LEFT + (RIGHT - LEFT) * row.tick)} {told(middle - 10)}v20", "limit"))
        marks.append(text(RIGHT + 10, middle + _TEXT_DROP, row.number))
    return marks, top + ROW * len(rows) + 4


def _ends(bar: Bar) -> tuple[float, float]:
    begin, end = (LEFT + (RIGHT - LEFT) * min(1.0, max(0.0, each)) for each in (bar.begin, bar.end))
    return begin, end


def _comb(bars: Sequence[Bar], middle: float) -> Part:
    ends = (_ends(bar) for bar in bars)
    teeth = (
        f"M{told(begin)} {told(middle - _BAR / 2)}H{told(max(begin + 1, end))}v{told(_BAR)}H{told(begin)}z"
        for begin, end in ends
    )
    return path("".join(teeth), bars[0].ink, bars[0].title)


def _short(name: str) -> str:
    plain = one_line(name)
    return plain if len(plain) <= _LABEL_CHARS else f"{plain[: _LABEL_CHARS - 1]}…"
