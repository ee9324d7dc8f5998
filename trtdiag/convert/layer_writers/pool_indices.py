"""Where the greatest element of a window lies."""

from __future__ import annotations

import itertools
from math import prod

from trtdiag.convert.layer_writers.pooling import Windows, lowest, tap
from trtdiag.convert.refusal import refuse
from trtdiag.network.builder import Value
from trtdiag.network.dtype import DType
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.unary import UnaryOperation

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
    filled = found.filled(lowest(found.space.x))
    best: Value | None = None
    index: Value | None = None
    seen: Value | None = None
    for places in itertools.product(*map(range, found.window)):
        value = filled
        for axis, place in enumerate(places):
            value = tap(found, value, axis, place)
        at, inside = _position(found, places)
        if best is None or index is None or seen is None:
            best, index, seen = value, at, inside
            continue
        better = write.elementwise(Op.GREATER, value, best)
        if value.dtype.is_float:
            unequal = write.unary(UnaryOperation.NOT, write.elementwise(Op.EQUAL, value, value))
            better = write.elementwise(Op.OR, better, unequal)
        first = write.unary(UnaryOperation.NOT, seen)
        taken = write.elementwise(Op.AND, inside, write.elementwise(Op.OR, better, first))
        best = write.select(taken, value, best)
        index = write.select(taken, at, index)
        seen = write.elementwise(Op.OR, seen, inside)
    assert best is not None
    assert index is not None
    return best, write.cast(write.broadcast_to(index, best.shape), dtype)


def _position(found: Windows, places: tuple[int, ...]) -> tuple[Value, Value]:
    """The index of one element of each window, and whether it lies inside; with dims of 1 for batch and channels."""
    write = found.write
    index: Value | None = None
    inside: Value | None = None
    for axis, place in enumerate(places):
        size = found.space.x.shape[axis + 2]
        start = place * found.dilation[axis] - found.padding[axis]
        along = write.counting(found.counts[axis], start, found.stride[axis])
        length = write.sizes.element(size)
        within = write.elementwise(
            Op.AND,
            write.elementwise(Op.LESS, along, length),
            write.elementwise(Op.GREATER, along, write.scalar(-1, along)),
        )
        along, within = (write.along(each, axis + 2, found.space.x.rank) for each in (along, within))
        if index is None or inside is None:
            index, inside = along, within
            continue
        length = write.reshape(length, [1] * found.space.x.rank)
        index = write.elementwise(Op.SUM, write.elementwise(Op.PROD, index, length), along)
        inside = write.elementwise(Op.AND, inside, within)
    assert index is not None
    assert inside is not None
    return index, inside
