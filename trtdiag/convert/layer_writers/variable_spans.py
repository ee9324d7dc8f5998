"""Stretches of one dim that differ in length: gathered to one length, and masked."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trtdiag.convert.writer import Writer
from trtdiag.network.builder import Value
from trtdiag.network.dtype import DType
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.reduce import ReduceOperation
from trtdiag.network.layers.unary import UnaryOperation
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
        inside = write.along(self.inside, axis, gathered.rank)
        return write.select(inside, gathered, write.scalar(fill, gathered))

    def mean(self, write: Writer, x: Value, axis: int) -> Value:
        """The average of each stretch of a float32 tensor."""
        sums = write.reduce(ReduceOperation.SUM, self.taken(write, x, axis, 0.0), [axis + 1])
        lengths = write.reshape(self.lengths, [self.lengths.shape[0]])
        return write.elementwise(Op.DIV, sums, write.along(lengths, axis, sums.rank))

    def greatest(self, write: Writer, x: Value, axis: int, lowest: float) -> Value:
        """The greatest element of each stretch."""
        return write.reduce(ReduceOperation.MAX, self.taken(write, x, axis, lowest), [axis + 1])

    def first_greatest(self, write: Writer, x: Value, index: Value, axis: int, lowest: float) -> tuple[Value, Value]:
        """The greatest element of each stretch and, of equal ones, the least ``index``.

        A NaN is the greatest, and of several the one of the least index.
        """
        values = self.taken(write, x, axis, lowest)
        best = write.reduce(ReduceOperation.MAX, values, [axis + 1], keep_dims=True)
        hits = write.elementwise(Op.EQUAL, values, best)
        if x.dtype.is_float:
            same = write.elementwise(Op.EQUAL, values, values)
            hits = write.elementwise(Op.OR, hits, write.unary(UnaryOperation.NOT, same))
        hits = write.elementwise(Op.AND, hits, write.along(self.inside, axis, hits.rank))
        places = write.gather(index, self.positions, axis)
        beyond = torch.iinfo(torch.int32).max
        places = write.select(hits, places, write.scalar(beyond, places))
        first = write.reduce(ReduceOperation.MIN, places, [axis + 1])
        return write.squeeze(best, [axis + 1]), first


def flat_index(write: Writer, x: Value, dims: int) -> Value:
    """The index of each element counted over the last dims, with dims of 1 before them."""
    index: Value | None = None
    for axis in range(x.rank - dims, x.rank):
        along = write.along(write.counting(x.shape[axis]), axis, x.rank)
        if index is not None:
            length = write.reshape(write.sizes.element(x.shape[axis]), [1] * x.rank)
            along = write.elementwise(Op.SUM, write.elementwise(Op.PROD, index, length), along)
        index = along
    assert index is not None
    return index


def even_spans(write: Writer, size: Expr, count: Expr) -> Spans:
    """``count`` stretches that cover ``size`` elements as evenly as whole numbers can.

    Stretch i begins at ``i * size / count`` rounded down, and ends before ``(i + 1) * size / count`` rounded up.
    """
    if isinstance(size, Num) and isinstance(count, Num):
        n, o = int(size.value), int(count.value)
        return _known(write, n, [(i * n // o, -(-(i + 1) * n // o)) for i in range(o)])
    step = write.counting(count)
    length, counts = write.sizes.element(size), write.sizes.element(count)
    start = write.elementwise(Op.FLOOR_DIV, write.elementwise(Op.PROD, step, length), counts)
    one = write.scalar(1, step)
    following = write.elementwise(Op.PROD, write.elementwise(Op.SUM, step, one), length)
    # Rounded up: the quotient of one less, plus one.
    before = write.elementwise(Op.FLOOR_DIV, write.elementwise(Op.SUB, following, one), counts)
    end = write.elementwise(Op.SUM, before, one)
    # A stretch reaches over at most the quotient and one element more at each end.
    return spans(write, size, start, end, add(floordiv(size, count), 2))


def spans(write: Writer, size: Expr, start: Value, end: Value, most: Expr) -> Spans:
    """Stretches from ``start`` up to ``end``, two vectors, of at most ``most`` elements."""
    first, last = write.unsqueeze(start, [1]), write.unsqueeze(end, [1])
    at = write.elementwise(Op.SUM, first, write.unsqueeze(write.counting(most), [0]))
    inside = write.elementwise(Op.LESS, at, last)
    limit = write.elementwise(Op.SUB, write.sizes.element(size), write.number(1, write.index, 1))
    positions = write.elementwise(Op.MIN, at, limit)
    return Spans(positions, inside, write.cast(write.elementwise(Op.SUB, last, first), DType.FLOAT32))


def _known(write: Writer, size: int, ends: list[tuple[int, int]]) -> Spans:
    start, end = torch.tensor([a for a, _ in ends]), torch.tensor([b for _, b in ends])
    at = start[:, None] + torch.arange(int((end - start).max()))
    return Spans(
        write.constant(at.clamp(max=size - 1).to(write.index.torch)),
        write.constant(at < end[:, None]),
        write.constant((end - start).float()[:, None]),
    )
