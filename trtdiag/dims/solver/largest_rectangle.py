"""The largest product of two runs inside the allowed pairs of two parameters, found exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trtdiag.dims.solver.time_limit import Clock
from trtdiag.dims.solver.volume import PIN
from trtdiag.symbolic.checked_arrays import IntArray
from trtdiag.symbolic.patterns import Mask

MOST_CORNERS = 1 << 20


@dataclass(frozen=True)
class Rectangle:
    """Rows ``top..bottom`` and columns ``left..right``, both ends included, of a mask, and what they are worth."""

    top: int
    bottom: int
    left: int
    right: int
    worth: float

    @property
    def turned(self) -> Rectangle:
        """The same with rows for columns."""
        return Rectangle(self.left, self.right, self.top, self.bottom, self.worth)


def around(
    mask: Mask, row: int, column: int, rows: IntArray | None = None, columns: IntArray | None = None
) -> Rectangle | None:
    """The rectangle of true cells around one cell that is worth most; ``None`` where that cell is false.

    Args:
        mask: The cells.
        row: Of the cell.
        column: Of the cell.
        rows: The value of each row, where they do not follow each other.
        columns: The same of columns.
    """
    if not mask[row, column]:
        return None
    rows = np.arange(mask.shape[0]) if rows is None else rows
    columns = np.arange(mask.shape[1]) if columns is None else columns
    if mask.shape[0] > mask.shape[1]:
        found = around(mask.T, column, row, columns, rows)
        return None if found is None else found.turned
    right = reach(mask[:, column:]) + column - 1
    left = column + 1 - reach(mask[:, column::-1])
    up = corners(left[row::-1], right[row::-1])
    down = corners(left[row:], right[row:])
    best: Rectangle | None = None
    size = max(1, MOST_CORNERS // len(down[0]))
    for begin in range(0, len(up[0]), size):
        above, lefts, rights = (part[begin : begin + size, None] for part in up)
        lefts, rights = np.maximum(lefts, down[1][None, :]), np.minimum(rights, down[2][None, :])
        tops, bottoms = row - above, row + down[0][None, :]
        worth = _worth(columns[rights] - columns[lefts] + 1, rows[bottoms] - rows[tops] + 1, mask.size)
        at = np.unravel_index(int(np.argmax(worth)), worth.shape)
        if best is None or worth[at] > best.worth:
            top, bottom = int(tops[at[0], 0]), int(bottoms[0, at[1]])
            best = Rectangle(top, bottom, int(lefts[at]), int(rights[at]), float(worth[at]))
    return best


def worth_of(count: int) -> int:
    """What a number of values adds as a factor: a single one costs as any pin does."""
    return int(count) * (PIN.numerator if count > 1 else PIN.denominator)


def _worth(widths: IntArray, heights: IntArray, cells: int) -> npt.NDArray[np.float64]:
    """The product of both as ``worth_of`` has it; of equal ones the less narrow is better."""
    fixed, free = float(PIN.denominator), float(PIN.numerator)
    price = np.where(widths > 1, free, fixed) * np.where(heights > 1, free, fixed)
    return price * widths * heights + np.minimum(widths, heights) / (cells + 1)


def reach(mask: Mask) -> IntArray:
    """How many cells of each row are true from its begin on."""
    full = mask.all(axis=1)
    reach: IntArray = np.where(full, mask.shape[1], np.argmin(mask, axis=1)).astype(np.int64)
    return reach


def corners(left: IntArray, right: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """How far the rows go before the common columns get fewer, and these columns; rows start at the cell's own."""
    lefts, rights = np.maximum.accumulate(left), np.minimum.accumulate(right)
    blocked = np.flatnonzero(left > right)
    count = int(blocked[0]) if len(blocked) else len(left)
    lefts, rights = lefts[:count], rights[:count]
    last = np.ones(count, dtype=bool)
    last[:-1] = (lefts[1:] != lefts[:-1]) | (rights[1:] != rights[:-1])
    places = np.flatnonzero(last)
    return places.astype(np.int64), lefts[places], rights[places]


def anywhere(mask: Mask, clock: Clock) -> Rectangle | None:
    """The largest rectangle of true cells; ``None`` where no cell is true.

    Cost: rows squared times columns, with the shorter side as rows.
    """
    if mask.shape[0] > mask.shape[1]:
        turned = anywhere(mask.T, clock)
        return None if turned is None else turned.turned
    best: Rectangle | None = None
    for found in _from_each_row(mask):
        if best is None or found.worth > best.worth:
            best = found
        if clock.out:
            break
    return best


def _from_each_row(mask: Mask) -> Iterator[Rectangle]:
    """For each top row the best rectangle that begins there."""
    for top in range(len(mask)):
        if not mask[top].any():
            continue
        shared = np.logical_and.accumulate(mask[top:], axis=0)
        runs = np.zeros(shared.shape, dtype=np.int64)
        runs[:, 0] = shared[:, 0]
        for column in range(1, shared.shape[1]):
            runs[:, column] = (runs[:, column - 1] + 1) * shared[:, column]
        ends = runs.argmax(axis=1)
        widths = runs.max(axis=1)
        heights = np.arange(1, len(widths) + 1)
        worth = _worth(widths, heights, mask.size)
        at = int(np.argmax(worth))
        if widths[at]:
            yield Rectangle(top, top + at, int(ends[at]) - int(widths[at]) + 1, int(ends[at]), float(worth[at]))
