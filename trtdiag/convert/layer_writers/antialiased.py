"""Interpolation that first blurs what it makes smaller, so that each input element counts (antialias=True)."""

from __future__ import annotations

from math import ceil

from trtdiag.convert.layer_writers.coordinates import Axis, inside, ratio, real_counting, weighed
from trtdiag.convert.layer_writers.resize import cubic
from trtdiag.convert.reshape_writer import Size
from trtdiag.convert.writer import Writer
from trtdiag.network.dtype import DType
from trtdiag.network.layers.reduce import ReduceOperation
from trtdiag.network.value import Value
from trtdiag.symbolic import add, as_expr, floordiv, maximum, minimum, mul, neg, sub, truediv

_CUBIC = -0.5
"""The coefficient that PyTorch takes here, as Pillow does; without antialias it takes -0.75."""


def antialiased(write: Writer, x: Value, place: int, axis: Axis, reach: int, *, align_corners: bool) -> Value:
    """One dim of a float32 tensor in another size.

    Args:
        write: Writes layers.
        x: The tensor.
        place: Which of its dims.
        axis: The sizes.
        reach: How far the kernel reaches: 1 for the linear one, 2 for the cubic one; as many times more as the input
            is larger.
        align_corners: Whether the outermost elements lie on one another.
    """
    half = 0.5  # PyTorch takes the centres of elements also where it aligns corners
    scale = _scale(write, axis, align_corners)
    wide = scale.maximum(1.0)
    support = wide * float(reach)
    centre = (real_counting(write, axis.count) + half) * scale
    # Towards zero, which is how PyTorch makes indices of them.
    first = write.cast(centre - support + half, write.index).maximum(0)
    last = write.cast(centre + support + half, write.index).minimum(write.sizes.element(axis.size))
    steps = write.unsqueeze(write.counting(_most(axis, reach, align_corners)), [0])
    at = write.unsqueeze(first, [1]) + steps
    counts = at < write.unsqueeze(last, [1])
    away = write.cast(at, DType.FLOAT32) + half - write.unsqueeze(centre, [1])
    distance = abs(away / write.unsqueeze(wide, [0]))
    zero = write.scalar(0.0, distance)
    weights = (1.0 - distance).maximum(zero) if reach == 1 else cubic(write, distance, _CUBIC)
    weights = write.select(counts, weights, zero)
    weights = weights / write.reduce(ReduceOperation.SUM, weights, [1], keep_dims=True)
    return weighed(write, x, inside(write, at, axis.size), weights, place)


def _scale(write: Writer, axis: Axis, align_corners: bool) -> Value:
    """Input elements for each output element, as a vector of one float32."""
    if not align_corners:
        return ratio(write, axis)
    steps = sub(axis.count, 1)
    several = minimum(steps, 1)  # 0 where the output has one element
    return write.sizes.real(truediv(mul(several, sub(axis.size, 1)), maximum(steps, 1)), DType.FLOAT32)


def _most(axis: Axis, reach: int, align_corners: bool) -> Size:
    """The most input elements that one output element is made of."""
    if axis.factor is not None and not align_corners:
        return 2 * ceil(reach * max(1.0, 1.0 / axis.factor)) + 1
    count = maximum(sub(axis.count, 1), 1) if align_corners else axis.count
    enlarged = neg(floordiv(neg(mul(reach, axis.size)), count))
    return add(mul(2, maximum(as_expr(reach), enlarged)), 1)
