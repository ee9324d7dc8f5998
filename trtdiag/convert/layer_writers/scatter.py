"""Elements put into places: overwritten by the Scatter layer, in a dtype that it takes; added or folded by comparing.

Layers do not add many elements into one place, so every place is compared with every index there.
"""

from __future__ import annotations

import torch

from trtdiag.convert.layer_writers.cost import require_few
from trtdiag.convert.layer_writers.indices import inverse, moved
from trtdiag.convert.writer import Writer
from trtdiag.network.dtype import INDICES, NUMBERS, DType
from trtdiag.network.layers.reduce import ReduceOperation as Fold
from trtdiag.network.layers.scatter import Scatter, ScatterMode
from trtdiag.network.value import Value
from trtdiag.symbolic import Expr, Num

WHY = "comparing every place with every index"


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


def neutral(fold: Fold, dtype: DType) -> int | float:
    """The number that changes nothing."""
    if fold in (Fold.SUM, Fold.PROD):
        return int(fold is Fold.PROD)
    if dtype.is_float:
        return float("-inf") if fold is Fold.MAX else float("inf")
    limits = torch.iinfo(dtype.torch)
    return int(limits.min if fold is Fold.MAX else limits.max)


def folded_by_element(
    write: Writer, index: Value, source: Value, places: Expr, fold: Fold, *, count: bool = False
) -> tuple[Value, Value | None]:
    """For ``index`` and ``source`` (..., m): what the elements of each of ``places`` come to, as (..., places).

    It is the neutral number where there are none.  Beside it stands how many there are, in int32, where ``count`` asks.

    Cost: places times the elements of the index.
    """
    require_few(write, [*index.shape, places], WHY)
    rank = index.rank
    own = write.unsqueeze(index, [rank - 1])
    place = write.along(write.cast(write.counting(places), index.dtype), rank - 1, rank + 1)
    hits = own.eq(place)
    chosen = write.select(hits, write.unsqueeze(source, [rank - 1]), neutral(fold, source.dtype))
    values = write.reduce(fold, chosen, [rank])
    return values, write.reduce(Fold.SUM, write.cast(hits, DType.INT32), [rank]) if count else None


def folded_by_row(write: Writer, index: Value, rows: Value, places: Expr, fold: Fold) -> Value:
    """For an index (m) and ``rows`` (m, r): the rows of each of ``places``, as (places, r).

    Cost: places times the elements of the rows.
    """
    require_few(write, [places, *rows.shape], WHY)
    own = write.unsqueeze(index, [0, 2])
    place = write.along(write.cast(write.counting(places), index.dtype), 0, 3)
    chosen = write.select(own.eq(place), write.unsqueeze(rows, [0]), neutral(fold, rows.dtype))
    return write.reduce(fold, chosen, [1])
