"""The first elements in order, with TensorRT's limits of TopK."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.cost import MOST_PAIRS, amount_in_words, greatest, require_few
from trtdiag.convert.layer_writers.elementary import is_nan
from trtdiag.convert.layer_writers.indices import inverse, moved
from trtdiag.convert.layer_writers.radix_sort import MOST_SORTED, in_order
from trtdiag.convert.layer_writers.reduction import wide
from trtdiag.convert.layer_writers.scatter_update import overwritten
from trtdiag.convert.layer_writers.spatial_dims import reaching
from trtdiag.convert.refusal import refuse
from trtdiag.convert.writer import Writer
from trtdiag.network import INPUT, DType, Value
from trtdiag.network.layers import Cast, Gather, GatherMode, ReduceOperation, ScatterMode, Shuffle, TopK, TopKOperation
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.shapes.shape_constraints import elements
from trtdiag.symbolic import Expr, Num, add, floordiv, mul

MOST_K = 3840
"""Source: TensorRT Operators, TopK, "k must obey k <= d, k <= 3840" (10.15)."""
MOST_PARTS = 16
"""Own choice: parts of ``MOST_PAIRS`` comparisons each, which is 16,384 elements in a row."""
MOST_FROM_THE_END = 4
"""Source: TensorRT Operators, TopK, "axes: must be one of the last four dimensions" (10.15)."""


def ordered(write: Writer, x: Value, axis: int, k: Expr, op: TopKOperation) -> tuple[Value, Value]:
    """The ``k`` first elements along ``axis`` in order, and where they stood; of equal ones the first comes first."""
    most = greatest(write, k)
    if most is None or most > MOST_K:
        return _many(write, x, axis, k, op)
    y = write.cast(x, _dtype(write, x.dtype))
    place = x.rank - 1 if x.rank - axis > MOST_FROM_THE_END else axis
    order = moved(x.rank, axis, place)
    y = write.permute(y, order)
    if write.target.takes(TopK.__name__, y.dtype.value):
        values, indices = _first(write, y, place, k, op)
    else:
        indices = _first(write, _ranks(write, y, place, op), place, k, TopKOperation.MIN)[1]
        values = write.add(Gather(GatherMode.ELEMENT, place), y, indices)
    back = inverse(order)
    return write.cast(write.permute(values, back), x.dtype), write.permute(indices, back)


def with_places(
    call: Call, find: Callable[[Value, int], tuple[Value, Value]], *, keep_dims: bool = True
) -> Sequence[Value]:
    """What ``find`` gives along the dim of an op, and where it stood, as the two outputs of the op, or as its only one.

    The dim has one element then, and goes, unless ``keep_dims``; an op of one output gives the places.
    """
    write, x, wanted = call.write, call.tensor("self"), call.outputs[-1]
    dtype = write.index if wanted is None else wanted.dtype
    found = [x, write.number(0, dtype)]
    if x.rank:
        axis = call.axis("dim", x.rank)
        found = [own if keep_dims else write.squeeze(own, [axis]) for own in find(x, axis)]
    return [found[0], write.cast(found[1], dtype)][-len(call.outputs) :]


def _many(write: Writer, x: Value, axis: int, k: Expr, op: TopKOperation) -> tuple[Value, Value]:
    """More elements than TopK gives: whole numbers in one dim by their digits, others by comparing all with all."""
    y = write.cast(x, wide(x.dtype))
    size, rest = greatest(write, y.shape[axis]), greatest(write, elements(x.shape))
    descending = op is TopKOperation.MAX
    parts = 0 if size is None or rest is None else max(1, -(-size * rest // MOST_PAIRS))
    whole = not y.dtype.is_float and y.rank == 1 and size is not None and size <= MOST_SORTED
    if whole and parts > 1:
        values, places = in_order(write, y, _bound(y), descending=descending)
    elif 0 < parts <= MOST_PARTS:
        order = moved(y.rank, axis, y.rank - 1)
        last = write.permute(y, order)
        # A NaN is neither before nor behind anything: two elements would get one rank, and another would be lost.
        keys = write.select(is_nan(write, last), math.inf, last) if last.dtype.is_float else last
        ranks = write.cast(_ranks_in_parts(write, keys, op, parts), write.index)
        counted = write.along(write.counting(last.shape[-1]), last.rank - 1, last.rank)
        counted = write.broadcast_to(counted, last.shape)
        nothing = write.filled(last.shape, 0, write.index)
        places = overwritten(write, nothing, ranks, counted, ScatterMode.ELEMENT, last.rank - 1)
        values = write.add(Gather(GatherMode.ELEMENT, last.rank - 1), last, places)
        values, places = (write.permute(one, inverse(order)) for one in (values, places))
    else:
        raise refuse(
            "top-k",
            f"it puts {amount_in_words(write, k)} elements in order; TensorRT's TopK gives {MOST_K:,} at most, and"
            f" {amount_in_words(write, x.shape[axis])} are too many to compare all with all",
            "declare a smaller range of sizes, or leave the op to PyTorch",
        )
    return write.cast(write.part(values, axis, 0, k), x.dtype), write.part(places, axis, 0, k)


def _bound(x: Value) -> int | None:
    """What whole numbers are below that a TopK gave as places, or that were bools; ``None`` for others."""
    while x.dtype is not DType.BOOL and isinstance(x.made_by, (Shuffle, Cast)):
        x = x.sources[0]
    if x.dtype is DType.BOOL:
        return 2
    layer = x.made_by
    if not isinstance(layer, TopK) or not x.sources[0].dtype.is_float or x.dtype.is_float:
        return None
    size = x.sources[0].shape[layer.axis]
    return int(size.value) if isinstance(size, Num) else None


def _ranks_in_parts(write: Writer, y: Value, op: TopKOperation, parts: int) -> Value:
    """How many elements come before each one along the last dim, for some of them at a time."""
    size = y.shape[-1]
    length = floordiv(add(size, parts - 1), parts)
    filled = reaching(write, y, (0,), (mul(length, parts),), 0)
    other, places = write.unsqueeze(y, [y.rank - 1]), write.unsqueeze(write.counting(size), [0])
    found = []
    for part in range(parts):
        start = mul(length, part)
        own = write.unsqueeze(write.part(filled, y.rank - 1, start, length), [y.rank])
        before = write.elementwise(Op.GREATER if op is TopKOperation.MAX else Op.LESS, other, own)
        earlier = places < write.unsqueeze(write.counting(length, start), [1])
        hits = before | other.eq(own) & earlier
        found.append(write.reduce(ReduceOperation.SUM, write.cast(hits, DType.INT32), [y.rank]))
    return write.part(write.concat(found, y.rank - 1), y.rank - 1, 0, size)


def _dtype(write: Writer, dtype: DType) -> DType:
    """What ``dtype`` is put in order as; bools are 0 and 1 in float32 where TopK takes no integers."""
    plain = wide(dtype)
    return DType.FLOAT32 if dtype is DType.BOOL and not write.target.takes(TopK.__name__, plain.value) else plain


def _first(write: Writer, x: Value, axis: int, k: Expr, op: TopKOperation) -> tuple[Value, Value]:
    asked, given = (int(k.value), []) if isinstance(k, Num) else (INPUT, [write.sizes.scalar(k)])
    values, indices = write.add_all(TopK(op, asked, axis, write.index), x, *given)
    return values, indices


def _ranks(write: Writer, x: Value, axis: int, op: TopKOperation) -> Value:
    """How many elements come before each one, as float32, which holds numbers below 2**24; no two are the same.

    Cost: quadratic in the size of the dim.
    """
    size = x.shape[axis]
    order = moved(x.rank, axis, x.rank - 1)
    y = write.permute(x, order)
    require_few(write, [*y.shape, size], "comparing every element with every other along the dim")
    own, other = write.unsqueeze(y, [y.rank]), write.unsqueeze(y, [y.rank - 1])
    before = write.elementwise(Op.GREATER if op is TopKOperation.MAX else Op.LESS, other, own)
    same = other.eq(own)
    places = write.counting(size)
    earlier = write.unsqueeze(places, [0]) < write.unsqueeze(places, [1])
    hits = before | same & earlier
    ranks = write.reduce(ReduceOperation.SUM, write.cast(hits, DType.FLOAT32), [y.rank])
    return write.permute(ranks, inverse(order))
