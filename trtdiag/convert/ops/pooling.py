"""Poolings with windows of a fixed size."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import prod

from trtdiag.convert import Call, converter, refuse
from trtdiag.convert.layer_writers.pooling import Windows, divisors, greatest, lowest, tap, windows
from trtdiag.network import DType, Value
from trtdiag.network.layers import ElementWiseOperation as Op, PaddingMode, PoolingType


@converter
def max_pool(call: Call) -> list[Value]:
    """aten::max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool
        ceil_mode=False) -> Tensor
    aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool
        ceil_mode=False) -> Tensor
    aten::max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool
        ceil_mode=False) -> Tensor
    aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2]
        dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)
    aten::max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3]
        dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)
    """
    found = windows(call, call.dims)
    indices = call.outputs[1] if len(call.outputs) > 1 else None
    values = [greatest(found)] if indices is None else with_indices(found, indices.dtype)
    return [found.space.leave(value) for value in values]


@converter
def avg_pool(call: Call) -> Value:
    """aten::avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False,
        bool count_include_pad=True) -> Tensor
    aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool
        count_include_pad=True, int? divisor_override=None) -> Tensor
    aten::avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool
        count_include_pad=True, int? divisor_override=None) -> Tensor

    Integers are refused: PyTorch cuts their average off.
    """
    write, found = call.write, windows(call, call.dims)
    x = found.space.x
    if not x.dtype.is_float:
        raise refuse("integer-average", "the layer averages no integers", "compute the average in float32")
    override = call.number_or_none("divisor_override")
    includes = call.flag("count_include_pad")
    mode = found.rounding()
    # What lies beyond the padding counts in the layer, and not in PyTorch.
    counts_beyond = includes and mode is PaddingMode.EXPLICIT_ROUND_UP
    if mode is not None and override is None and not counts_beyond:
        return found.space.leave(write.add(found.layer(PoolingType.AVERAGE, mode, excludes=not includes), x))
    # The sum of a window is its average with all that is filled in, times the window's elements.
    whole = prod(found.window)
    filled = write.cast(found.filled(0), DType.FLOAT32)
    y = write.add(found.layer(PoolingType.AVERAGE, None), filled)
    y = y * float(whole)
    if override is not None:
        y = y / float(override)
    else:
        for count in divisors(found, includes_padding=includes):
            y = y / count
    return found.space.leave(write.cast(y, x.dtype))


# Where the greatest element of a window lies.


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
