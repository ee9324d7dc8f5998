"""Sums and products of all elements up to each one."""

from __future__ import annotations

from trtdiag.convert.layer_writers.cost import require_few
from trtdiag.convert.layer_writers.indices import inverse, moved
from trtdiag.convert.layer_writers.reduction import neutral
from trtdiag.convert.writer import Writer
from trtdiag.network.layers import Cumulative, ReduceOperation as Fold
from trtdiag.network.value import Value


def running_sum(write: Writer, x: Value, axis: int) -> Value:
    """The sum up to each element; where TensorRT has no layer for it, by ``over_earlier``."""
    if "Cumulative" in write.target.layers:
        return write.add(Cumulative(axis), x)
    return over_earlier(write, x, axis, Fold.SUM)


def over_earlier(write: Writer, x: Value, axis: int, fold: Fold) -> Value:
    """``fold`` over the elements up to each one.

    Cost: quadratic in the size of the dim.
    """
    size = x.shape[axis]
    require_few(write, [*x.shape, size], "comparing every element with every other along the dim")
    order = moved(x.rank, axis, x.rank - 1)
    y = write.permute(x, order)
    own = write.along(write.counting(size), y.rank - 1, y.rank + 1)
    other = write.along(write.counting(size), y.rank, y.rank + 1)
    terms = write.unsqueeze(y, [y.rank - 1])
    chosen = write.select(other > own, neutral(fold, y.dtype), terms)
    return write.permute(write.reduce(fold, chosen, [y.rank]), inverse(order))
