"""Poolings to a given size, whose windows differ by an element where the size does not divide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from trtdiag.convert import Call, Writer, converter, refuse
from trtdiag.convert.layer_writers.pooling import lowest
from trtdiag.network import NUMBERS, DType, Value
from trtdiag.network.layers import PaddingMode, Pooling, PoolingType, ReduceOperation, ReduceOperation as Fold
from trtdiag.symbolic import Expr, Num, add, floordiv


@converter
def adaptive_average(call: Call) -> Value:
    """aten::adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor
    aten::adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor
    aten::adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor
    aten::_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor
    aten::_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor
    """
    write, x, dims = call.write, call.tensor("self"), call.dims
    if not x.dtype.is_float:
        raise refuse("integer-average", "no layer averages integers", "compute the average in float32")
    if Num(0) in call.out.shape[-dims:]:
        return write.filled(call.out.shape, 0, x.dtype)
    if all(size == Num(1) for size in call.out.shape[-dims:]):
        return write.reduce(Fold.AVG, x, range(x.rank - dims, x.rank), keep_dims=True)
    layer = _as_pooling(call, x, PoolingType.AVERAGE)
    if layer is not None:
        return write.add(layer, x)
    # PyTorch averages 16 bit types in float32.
    return write.cast(_along(call, write.cast(x, DType.FLOAT32), Fold.AVG), x.dtype)


@converter
def adaptive_greatest(call: Call) -> Sequence[Value]:
    """aten::adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)
    aten::adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)
    aten::adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)
    """
    write, x, dims = call.write, call.tensor("self"), call.dims
    if x.dtype not in NUMBERS:
        raise refuse("pooling-dtype", f"no layer pools {x.dtype.value}")
    if Num(0) in call.out.shape[-dims:]:
        return [write.filled(call.out.shape, 0, out.dtype) for out in (call.out, call.outputs[1]) if out is not None]
    indices = call.outputs[1]
    if indices is not None:  # which of their dims of space each was, counted over all of them
        index = flat_index(write, x, dims)
        for axis in reversed(range(x.rank - dims, x.rank)):
            found = even_spans(write, x.shape[axis], call.out.shape[axis])
            x, index = found.first_greatest(write, x, index, axis, lowest(x))
        return x, write.cast(index, indices.dtype)
    layer = _as_pooling(call, x, PoolingType.MAX) if x.dtype.is_float else None
    return [_along(call, x, Fold.MAX) if layer is None else write.add(layer, x)]


def _as_pooling(call: Call, x: Value, op: PoolingType) -> Pooling | None:
    """A Pooling layer, where each size is a number that divides the input's."""
    dims, window = call.dims, []
    if dims == 1 or x.rank != dims + 2:
        return None
    for whole, size in zip(x.shape[-dims:], call.out.shape[-dims:], strict=True):
        if not (isinstance(whole, Num) and isinstance(size, Num)) or not size.value or whole.value % size.value:
            return None
        window.append(int(whole.value // size.value))
    none = (0,) * dims
    return Pooling(op, tuple(window), tuple(window), none, none, PaddingMode.EXPLICIT_ROUND_DOWN)


def _along(call: Call, x: Value, fold: Fold) -> Value:
    """One dim after the other, the last first: all of it at once for one element, nothing where the size stays."""
    write = call.write
    for axis in reversed(range(x.rank - call.dims, x.rank)):
        size = call.out.shape[axis]
        if size == Num(1):
            x = write.reduce(fold, x, [axis], keep_dims=True)
        elif not write.builder.facts.equal(size, x.shape[axis]):
            found, average = even_spans(write, x.shape[axis], size), fold is Fold.AVG
            taken = found.taken(write, x, axis, 0.0 if average else lowest(x))
            x = write.reduce(Fold.SUM if average else fold, taken, [axis + 1])
            x = x / write.along(found.lengths, axis, x.rank) if average else x
    return x


# Stretches of one dim that differ in length: gathered to one length, and masked.


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
