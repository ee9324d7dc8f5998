"""Elements put into places over what is there, by the Scatter layer, in a dtype that it takes."""

from __future__ import annotations

from trtdiag.convert.layer_writers.indices import inverse, moved
from trtdiag.convert.writer import Writer
from trtdiag.network import INDICES, NUMBERS, DType, Value
from trtdiag.network.layers.scatter import Scatter, ScatterMode
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


def rows_overwritten(write: Writer, x: Value, index: Value, rows: Value, axis: int) -> Value:
    """``x`` with rows across ``axis`` replaced: those that a vector of indices names, by those of another tensor."""
    order = moved(x.rank, axis, 0)
    places, updates = write.unsqueeze(index, [1]), write.permute(rows, order)
    return write.permute(overwritten(write, write.permute(x, order), places, updates, ScatterMode.ND), inverse(order))
