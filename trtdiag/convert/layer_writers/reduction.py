"""Reductions in a dtype that Reduce takes, and sums and products of all elements up to each one."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf

import torch

from trtdiag.convert.layer_writers.cost import require_few
from trtdiag.convert.layer_writers.indices import inverse, moved
from trtdiag.convert.writer import Writer
from trtdiag.network import FLOATS, NUMBERS, DType, Value
from trtdiag.network.layers import Cumulative, ReduceOperation as Fold
from trtdiag.symbolic import Num


def wide(dtype: DType) -> DType:
    """A dtype that Reduce, TopK and arithmetic take, and that holds every value of ``dtype``."""
    return dtype if dtype in NUMBERS else DType.INT32


def precise(dtype: DType) -> DType:
    """What floats are summed in: float32, as PyTorch does for the 16 bit types."""
    return DType.FLOAT32 if dtype in FLOATS else dtype


def neutral(fold: Fold, dtype: DType) -> int | float:
    """The number that changes nothing."""
    if fold in (Fold.SUM, Fold.PROD):
        return int(fold is Fold.PROD)
    if dtype.is_float:
        return float("-inf") if fold is Fold.MAX else float("inf")
    limits = torch.iinfo(dtype.torch)
    return int(limits.min if fold is Fold.MAX else limits.max)


def reduced(write: Writer, fold: Fold, x: Value, axes: Sequence[int], keep_dims: bool = False) -> Value:
    """``x`` reduced over ``axes`` and in its own dtype; bools as 0 and 1.  Without axes ``x`` itself."""
    if not axes:
        return x
    return write.cast(write.reduce(fold, write.cast(x, wide(x.dtype)), axes, keep_dims), x.dtype)


def truths(write: Writer, x: Value) -> Value:
    """Whether each element is not zero, a NaN included, as int32."""
    return write.cast(write.cast(x, DType.BOOL), DType.INT32)


def is_empty(x: Value, axes: Sequence[int]) -> bool:
    """Whether one of ``axes`` has no elements, so that a reduction has nothing to look at."""
    return any(x.shape[axis] == Num(0) for axis in axes)


def vector_norm(write: Writer, x: Value, order: float, axes: Sequence[int], keep_dims: bool = False) -> Value:
    """``sum(abs(x) ** order) ** (1 / order)`` of floats, with PyTorch's meaning of 0 and of infinite orders."""
    if order == 0:
        return reduced(write, Fold.SUM, write.cast(truths(write, x), x.dtype), axes, keep_dims)
    if order == 2:
        return reduced(write, Fold.SUM, x * x, axes, keep_dims).sqrt()
    size = abs(x)
    if isinf(order):
        return reduced(write, Fold.MAX if order > 0 else Fold.MIN, size, axes, keep_dims)
    if order == 1:
        return reduced(write, Fold.SUM, size, axes, keep_dims)
    return reduced(write, Fold.SUM, size**order, axes, keep_dims) ** (1 / order)


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
