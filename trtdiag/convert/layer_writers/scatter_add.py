"""Many elements into one place: by comparing every place with every index, since layers overwrite and do not add."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trtdiag.convert.layer_writers.cost import require_few
from trtdiag.convert.writer import Writer
from trtdiag.network.dtype import DType
from trtdiag.network.layers.reduce import ReduceOperation as Fold
from trtdiag.network.value import Value
from trtdiag.symbolic import Expr

WHY = "comparing every place with every index"


@dataclass(frozen=True)
class Folded:
    """What the elements for each place come to.

    Attributes:
        values: The neutral number where there are none.
        counts: How many there are, in int32; only where that was asked for.
    """

    values: Value
    counts: Value | None


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
) -> Folded:
    """For ``index`` and ``source`` (..., m): the elements of each of ``places``, as (..., places).

    Cost: places times the elements of the index.
    """
    require_few(write, [*index.shape, places], WHY)
    rank = index.rank
    own = write.unsqueeze(index, [rank - 1])
    place = write.along(write.cast(write.counting(places), index.dtype), rank - 1, rank + 1)
    hits = own.eq(place)
    chosen = write.select(hits, write.unsqueeze(source, [rank - 1]), neutral(fold, source.dtype))
    return Folded(write.reduce(fold, chosen, [rank]), _counted(write, hits, rank) if count else None)


def folded_by_row(write: Writer, index: Value, rows: Value, places: Expr, fold: Fold) -> Value:
    """For an index (m) and ``rows`` (m, r): the rows of each of ``places``, as (places, r).

    Cost: places times the elements of the rows.
    """
    require_few(write, [places, *rows.shape], WHY)
    own = write.unsqueeze(index, [0, 2])
    place = write.along(write.cast(write.counting(places), index.dtype), 0, 3)
    chosen = write.select(own.eq(place), write.unsqueeze(rows, [0]), neutral(fold, rows.dtype))
    return write.reduce(fold, chosen, [1])


def _counted(write: Writer, hits: Value, axis: int) -> Value:
    return write.reduce(Fold.SUM, write.cast(hits, DType.INT32), [axis])
