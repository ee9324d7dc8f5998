"""Scatter in a dtype that TensorRT takes."""

from __future__ import annotations

from trtdiag.convert.writer import Writer
from trtdiag.network.dtype import INDICES, NUMBERS, DType
from trtdiag.network.layers.scatter import Scatter, ScatterMode
from trtdiag.network.value import Value
from trtdiag.symbolic import Num


def overwritten(write: Writer, x: Value, index: Value, updates: Value, mode: ScatterMode, axis: int = 0) -> Value:
    """``x`` with ``updates`` at the places of ``index``.

    TensorRT scatters no bools (Operators, Scatter, data types, 10.7); they are integers meanwhile.
    """
    if any(size == Num(0) for size in updates.shape):
        return x
    dtype = x.dtype if x.dtype in NUMBERS else DType.INT32
    index = write.cast(index, index.dtype if index.dtype in INDICES else write.index)
    made = write.add(Scatter(mode, axis), write.cast(x, dtype), index, write.cast(write.cast(updates, x.dtype), dtype))
    return write.cast(made, x.dtype)
