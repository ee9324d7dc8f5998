"""Stretches of one dim that differ in length: gathered to one length, and masked."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trtdiag.convert.writer import Writer
from trtdiag.network.dtype import DType
from trtdiag.network.layers.reduce import ReduceOperation
from trtdiag.network.value import Value
from trtdiag.symbolic import Expr, Num, add, floordiv


@dataclass(frozen=True)
class Spans:
    """Stretches of a dim.

    Attributes:
        positions: The index of each element of each stretch, (stretches, most elements); those past the end repeat
            one that lies inside of the dim.
        inside: Which of them belong to the stretch.
        lengths: Elements of each stretch as float32, (stretches, 1).
    """

    positions: Value
    inside: Value
    lengths: Value

    def taken(self, write: Writer, x: Value, axis: int, fill: float) -> Value:
        """``x`` with ``axis`` replaced by two: stretches and their elements, ``fill`` past their ends."""
        gathered = write.gather(x, self.positions, axis)
        return write.select(write.along(self.inside, axis, gathered.rank), gathered, fill)

    def mean(self, write: Writer, x: Value, axis: int) -> Value:
        """The average of each stretch of a float32 tensor."""
        sums = write.reduce(ReduceOperation.SUM, self.taken(write, x, axis, 0.0), [axis + 1])
        lengths = write.reshape(self.lengths, [self.lengths.shape[0]])
        return sums / write.along(lengths, axis, sums.rank)

    def greatest(self, write: Writer, x: Value, axis: int, lowest: float) -> Value:
        """The greatest element of each stretch."""
        return write.reduce(ReduceOperation.MAX, self.taken(write, x, axis, lowest), [axis + 1])

    def first_greatest(self, write: Writer, x: Value, index: Value, axis: int, lowest: float) -> tuple[Value, Value]:
        """The greatest element of each stretch and, of equal ones, the least ``index``.

        A NaN is the greatest, and of several the one of the least index.
        """
        values = self.taken(write, x, axis, lowest)
        best = write.reduce(ReduceOperation.MAX, values, [axis + 1], keep_dims=True)
        hits = values.eq(best)
        if x.dtype.is_float:
            hits = hits | ~values.eq(values)
        hits = hits & write.along(self.inside, axis, hits.rank)
        places = write.gather(index, self.positions, axis)
        places = write.select(hits, places, torch.iinfo(torch.int32).max)
        return write.squeeze(best, [axis + 1]), write.reduce(ReduceOperation.MIN, places, [axis + 1])


def flat_index(write: Writer, x: Value, dims: int) -> Value:
    """The index of each element counted over the last dims, with dims of 1 before them."""
    axes = range(x.rank - dims, x.rank)
    return write.row_major((write.along(write.counting(x.shape[axis]), axis, x.rank), x.shape[axis]) for axis in axes)


def even_spans(write: Writer, size: Expr, count: Expr) -> Spans:
    """``count`` stretches that cover ``size`` elements as evenly as whole numbers can.

    Stretch i begins at ``i * size / count`` rounded down, and ends before ``(i + 1) * size / count`` rounded up.
    """
    if isinstance(size, Num) and isinstance(count, Num):
        n, o = int(size.value), int(count.value)
        return _known(write, n, [(i * n // o, -(-(i + 1) * n // o)) for i in range(o)])
    step = write.counting(count)
    length, counts = write.sizes.element(size), write.sizes.element(count)
    start = step * length // counts
    # Rounded up: the quotient of one less, plus one.
    end = ((step + 1) * length - 1) // counts + 1
    # A stretch reaches over at most the quotient and one element more at each end.
    return spans(write, size, start, end, add(floordiv(size, count), 2))


def spans(write: Writer, size: Expr, start: Value, end: Value, most: Expr) -> Spans:
    """Stretches from ``start`` up to ``end``, two vectors, of at most ``most`` elements."""
    first, last = write.unsqueeze(start, [1]), write.unsqueeze(end, [1])
    at = first + write.unsqueeze(write.counting(most), [0])
    inside = at < last
    limit = write.sizes.element(size) - write.number(1, write.index, 1)
    return Spans(at.minimum(limit), inside, write.cast(last - first, DType.FLOAT32))


def _known(write: Writer, size: int, ends: list[tuple[int, int]]) -> Spans:
    start, end = torch.tensor([a for a, _ in ends]), torch.tensor([b for _, b in ends])
    at = start[:, None] + torch.arange(int((end - start).max()))
    return Spans(
        write.constant(at.clamp(max=size - 1).to(write.index.torch)),
        write.constant(at < end[:, None]),
        write.constant((end - start).float()[:, None]),
    )
