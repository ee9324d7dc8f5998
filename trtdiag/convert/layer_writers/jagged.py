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
        lengths: Elements of each stretch as float32.
    """

    positions: Value
    inside: Value
    lengths: Value

    def taken(self, write: Writer, x: Value, axis: int, fill: float) -> Value:
        """``x`` with ``axis`` replaced by two: stretches and their elements, ``fill`` past their ends."""
        gathered = write.gather(x, self.positions, axis)
        return write.select(write.along(self.inside, axis, gathered.rank), gathered, fill)

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
        length, places = int(size.value), torch.arange(int(count.value))
        begin, behind = places * length // int(count.value), -(-(places + 1) * length // int(count.value))
        at_each = begin[:, None] + torch.arange(int((behind - begin).max()))
        return Spans(
            write.constant(at_each.clamp(max=length - 1).to(write.index.torch)),
            write.constant(at_each < behind[:, None]),
            write.constant((behind - begin).float()),
        )
    step = write.counting(count)
    whole, counts = write.sizes.element(size), write.sizes.element(count)
    start = step * whole // counts
    # Rounded up: the quotient of one less, plus one.
    end = ((step + 1) * whole - 1) // counts + 1
    # A stretch reaches over at most the quotient and one element more at each end.
    steps = write.counting(add(floordiv(size, count), 2))
    at = write.unsqueeze(start, [1]) + write.unsqueeze(steps, [0])
    inside = at < write.unsqueeze(end, [1])
    return Spans(at.minimum(whole - 1), inside, write.cast(end - start, DType.FLOAT32))
