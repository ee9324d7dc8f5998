"""The first elements in order, with TensorRT's limits of TopK."""

from __future__ import annotations

from trtdiag.convert.refused import refuse
from trtdiag.convert.writer import Writer
from trtdiag.convert.writing.amount import amount_in_words, greatest
from trtdiag.convert.writing.reducing import wide
from trtdiag.network.builder import Value
from trtdiag.network.layer import INPUT
from trtdiag.network.layers.topk import TopK, TopKOperation
from trtdiag.symbolic import Expr, Num

MOST_K = 3840
"""Source: TensorRT Operators, TopK, "k must obey k <= d, k <= 3840" (10.15)."""
MOST_FROM_THE_END = 4
"""Source: TensorRT Operators, TopK, "axes: must be one of the last four dimensions" (10.15)."""


def ordered(write: Writer, x: Value, axis: int, k: Expr, op: TopKOperation) -> tuple[Value, Value]:
    """The ``k`` first elements along ``axis`` in order, and where they stood; of equal ones the first comes first."""
    most = greatest(write, k)
    if most is None or most > MOST_K:
        raise refuse(
            "top-k",
            f"it puts {amount_in_words(write, k)} elements in order; TensorRT's TopK gives {MOST_K:,} at most",
            "declare a smaller range of sizes, or leave the op to PyTorch",
        )
    y = write.cast(x, wide(x.dtype))
    order = list(range(x.rank))
    if x.rank - axis > MOST_FROM_THE_END:
        order.append(order.pop(axis))
        y = write.permute(y, order)
    place = order.index(axis)
    if isinstance(k, Num):
        values, indices = write.add_all(TopK(op, int(k.value), place, write.index), y)
    else:
        values, indices = write.add_all(TopK(op, INPUT, place, write.index), y, write.sizes.scalar(k))
    back = [order.index(dim) for dim in range(x.rank)]
    return write.cast(write.permute(values, back), x.dtype), write.permute(indices, back)
