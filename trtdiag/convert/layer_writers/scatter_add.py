"""Many elements into one place: by comparing every place with every index, since layers overwrite and do not add."""

from __future__ import annotations

import torch

from trtdiag.convert.layer_writers.cost import require_few
from trtdiag.convert.writer import Writer
from trtdiag.network.dtype import DType
from trtdiag.network.layers.reduce import ReduceOperation as Fold
from trtdiag.network.value import Value
from trtdiag.symbolic import Expr

WHY = "comparing every place with every index"


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
