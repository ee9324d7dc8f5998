"""Reductions in a dtype that Reduce takes."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert.writer import Writer
from trtdiag.network.dtype import FLOATS, NUMBERS, DType
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.reduce import ReduceOperation as Fold
from trtdiag.network.value import Value
from trtdiag.symbolic import Num

_COMPARED = {Fold.MAX: Op.MAX, Fold.MIN: Op.MIN}


def wide(dtype: DType) -> DType:
    """A dtype that Reduce, TopK and arithmetic take, and that holds every value of ``dtype``."""
    return dtype if dtype in NUMBERS else DType.INT32


def precise(dtype: DType) -> DType:
    """What floats are summed in: float32, as PyTorch does for the 16 bit types."""
    return DType.FLOAT32 if dtype in FLOATS else dtype


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
