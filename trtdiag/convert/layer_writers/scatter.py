"""Elements folded by the place that each belongs to.

Layers do not add many elements into one place, so every place is compared with every index there; where these are too
many pairs, the elements are sorted by their places.
"""

from __future__ import annotations

from trtdiag.convert.layer_writers.cost import MOST_PAIRS, greatest
from trtdiag.convert.layer_writers.reduction import neutral
from trtdiag.convert.layer_writers.segment_reduction import folded_in_order
from trtdiag.convert.writer import Writer
from trtdiag.network import DType, Value
from trtdiag.network.layers.reduce import ReduceOperation as Fold
from trtdiag.shapes.shape_constraints import elements
from trtdiag.symbolic import Expr


def folded_by_element(
    write: Writer, index: Value, source: Value, places: Expr, fold: Fold, *, count: bool = False
) -> tuple[Value, Value | None]:
    """For ``index`` and ``source`` (..., m): what the elements of each of ``places`` come to, as (..., places).

    It is the neutral number where there are none.  Beside it stands how many there are, in int32, where ``count`` asks.

    Cost: places times the elements of the index; where these are many, as of ``folded_in_order``.
    """
    if not _few(write, [*index.shape, places]):
        return _each_in_order(write, index, source, places, fold, count=count)
    rank = index.rank
    own = write.unsqueeze(index, [rank - 1])
    place = write.along(write.cast(write.counting(places), index.dtype), rank - 1, rank + 1)
    hits = own.eq(place)
    chosen = write.select(hits, write.unsqueeze(source, [rank - 1]), neutral(fold, source.dtype))
    values = write.reduce(fold, chosen, [rank])
    return values, write.reduce(Fold.SUM, write.cast(hits, DType.INT32), [rank]) if count else None


def folded_by_row(
    write: Writer, index: Value, rows: Value, places: Expr, fold: Fold, *, count: bool = False
) -> tuple[Value, Value | None]:
    """For an index (m) and ``rows`` (m, r): the rows of each of ``places``, as (places, r).

    Beside them stands how many there are, as (places, 1) in int32, where ``count`` asks.

    Cost: places times the elements of the rows; where these are many, as of ``folded_in_order``.
    """
    if not _few(write, [places, *rows.shape]):
        return folded_in_order(write, index, rows, places, fold, count=count)
    own = write.unsqueeze(index, [0, 2])
    place = write.along(write.cast(write.counting(places), index.dtype), 0, 3)
    hits = own.eq(place)
    chosen = write.select(hits, write.unsqueeze(rows, [0]), neutral(fold, rows.dtype))
    values = write.reduce(fold, chosen, [1])
    return values, write.reduce(Fold.SUM, write.cast(hits, DType.INT32), [1]) if count else None


def _few(write: Writer, shape: list[Expr]) -> bool:
    """Whether a tensor of this shape may be written out."""
    most = greatest(write, elements(shape))
    return len(shape) <= write.target.max_rank and most is not None and most <= MOST_PAIRS


def _each_in_order(
    write: Writer, index: Value, source: Value, places: Expr, fold: Fold, *, count: bool
) -> tuple[Value, Value | None]:
    """As ``folded_by_element``, all dims as one: each row of the index has places of its own."""
    outer, length = index.shape[:-1], index.shape[-1]
    rows = elements(outer)
    own = write.cast(write.reshape(index, [rows, length]), write.index)
    before = write.unsqueeze(write.counting(rows), [1]) * write.size_like(places, own)
    whole = elements([rows, length])
    key, values = write.reshape(own + before, [whole]), write.reshape(source, [whole, 1])
    made, counts = folded_in_order(write, key, values, elements([rows, places]), fold, count=count)
    shape = [*outer, places]
    return write.reshape(made, shape), None if counts is None else write.reshape(counts, shape)
