"""Interpolation that first blurs what it makes smaller, so that each input element counts (antialias=True)."""

from __future__ import annotations

from math import ceil

from trtdiag.convert.layer_writers.coordinates import Axis, inside, real_counting, weighed
from trtdiag.convert.layer_writers.resize import cubic
from trtdiag.convert.writer import Size, Writer
from trtdiag.network.builder import Value
from trtdiag.network.dtype import DType
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.reduce import ReduceOperation
from trtdiag.network.layers.unary import UnaryOperation
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
    wide = write.elementwise(Op.MAX, scale, write.scalar(1.0, scale))
    support = write.elementwise(Op.PROD, wide, write.scalar(float(reach), wide))
    index = real_counting(write, axis.count)
    centre = write.elementwise(Op.PROD, _plus(write, index, half), scale)
    first = _truncated(write, _plus(write, write.elementwise(Op.SUB, centre, support), half))
    first = write.elementwise(Op.MAX, first, write.scalar(0, first))
    last = _truncated(write, _plus(write, write.elementwise(Op.SUM, centre, support), half))
    last = write.elementwise(Op.MIN, last, write.sizes.element(axis.size))
    steps = write.unsqueeze(write.counting(_most(axis, reach, align_corners)), [0])
    at = write.elementwise(Op.SUM, write.unsqueeze(first, [1]), steps)
    counts = write.elementwise(Op.LESS, at, write.unsqueeze(last, [1]))
    away = write.elementwise(Op.SUB, _plus(write, write.cast(at, DType.FLOAT32), half), write.unsqueeze(centre, [1]))
    distance = write.unary(UnaryOperation.ABS, write.elementwise(Op.DIV, away, write.unsqueeze(wide, [0])))
    zero = write.scalar(0.0, distance)
    if reach == 1:
        near = write.elementwise(Op.SUB, write.scalar(1.0, distance), distance)
        weights = write.elementwise(Op.MAX, near, zero)
    else:
        weights = cubic(write, distance, _CUBIC)
    weights = write.select(counts, weights, zero)
    weights = write.elementwise(Op.DIV, weights, write.reduce(ReduceOperation.SUM, weights, [1], keep_dims=True))
    return weighed(write, x, inside(write, at, axis.size), weights, place)


def _plus(write: Writer, x: Value, number: float) -> Value:
    return write.elementwise(Op.SUM, x, write.scalar(number, x)) if number else x


def _truncated(write: Writer, x: Value) -> Value:
    """Towards zero, which is how PyTorch makes an index of it; what is below 0 is cut off anyway."""
    return write.cast(x, write.index)


def _scale(write: Writer, axis: Axis, align_corners: bool) -> Value:
    """Input elements for each output element, as a vector of one float32."""
    if align_corners:
        # 0 where the output has one element.
        steps = sub(axis.count, 1)
        several = minimum(steps, 1)
        return write.sizes.real(truediv(mul(several, sub(axis.size, 1)), maximum(steps, 1)), DType.FLOAT32)
    if axis.factor is not None:
        return write.number(1.0 / axis.factor, DType.FLOAT32, 1)
    return write.sizes.real(truediv(axis.size, axis.count), DType.FLOAT32)


def _most(axis: Axis, reach: int, align_corners: bool) -> Size:
    """The most input elements that one output element is made of."""
    if axis.factor is not None and not align_corners:
        return 2 * ceil(reach * max(1.0, 1.0 / axis.factor)) + 1
    count = maximum(sub(axis.count, 1), 1) if align_corners else axis.count
    enlarged = neg(floordiv(neg(mul(reach, axis.size)), count))
    return add(mul(2, maximum(as_expr(reach), enlarged)), 1)
