"""Where the greatest element of a window lies."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import prod

from trtdiag.convert.layer_writers.pooling import Windows, lowest, tap
from trtdiag.convert.refusal import refuse
from trtdiag.network.dtype import DType
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.value import Value

MOST_TAPS = 64
"""Own choice: elements of the largest window that is walked element by element; each is five layers."""


def with_indices(found: Windows, dtype: DType) -> tuple[Value, Value]:
    """The greatest element of each window, and its index counted over the dims of space of the input.

    Of equal elements the first counts, and a NaN is greater than all, as in PyTorch.
    """
    write = found.write
    if prod(found.window) > MOST_TAPS:
        raise refuse(
            "window-too-large",
            f"the indices of a window of {prod(found.window)} elements are found one by one; {MOST_TAPS} are the most",
        )
    taps = _taps(found)
    best, index, seen = next(taps)
    for value, at, inside in taps:
        better = value > best
        if value.dtype.is_float:
            better = better | ~value.eq(value)
        taken = inside & (better | ~seen)
        best = write.select(taken, value, best)
        index = write.select(taken, at, index)
        seen = seen | inside
    return best, write.cast(write.broadcast_to(index, best.shape), dtype)


def _taps(found: Windows) -> Iterator[tuple[Value, Value, Value]]:
    """Element by element of all windows: it, its index, and whether it lies inside.

    The last two have dims of 1 for batch and channels.
    """
    write, x = found.write, found.space.x
    filled = found.filled(lowest(x))
    for places in itertools.product(*map(range, found.window)):
        value, indices, inside = filled, [], []
        for axis, place in enumerate(places):
            value = tap(found, value, axis, place)
            start = place * found.dilation[axis] - found.padding[axis]
            along = write.counting(found.counts[axis], start, found.stride[axis])
            within = (along < write.sizes.element(x.shape[axis + 2])) & (along > -1)
            indices.append(write.along(along, axis + 2, x.rank))
            inside.append(write.along(within, axis + 2, x.rank))
        yield value, write.row_major(zip(indices, x.shape[2:], strict=True)), write.fold(Op.AND, inside)
