"""Interpolation to another size, by one Resize layer, or by gathers around the places that coordinates name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from trtdiag.convert.call import Call
from trtdiag.convert.refusal import refuse
from trtdiag.convert.writer import Writer
from trtdiag.network import DType, Value
from trtdiag.network.layers.reduce import ReduceOperation
from trtdiag.network.layers.resize import (
    InterpolationMode,
    Resize,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
)
from trtdiag.symbolic import Expr, Num, floor, mul, truediv


@dataclass(frozen=True)
class Axis:
    """One dim that is resized.

    Attributes:
        size: Of the input.
        count: Of the output.
        factor: By which the caller asked to enlarge it; ``None`` where only the size was asked.
    """

    size: Expr
    count: Expr
    factor: float | None


def real_counting(write: Writer, count: Expr) -> Value:
    """0, 1, 2, ... below ``count`` as float32."""
    return write.cast(write.counting(count), DType.FLOAT32)


def ratio(write: Writer, axis: Axis) -> Value:
    """How many input elements one output element stands for, as a vector of one float32."""
    if axis.factor is not None:
        return write.number(1.0 / axis.factor, DType.FLOAT32, 1)
    return write.sizes.real(truediv(axis.size, axis.count), DType.FLOAT32)


def centres(write: Writer, axis: Axis) -> Value:
    """``(i + 0.5) * ratio`` for each output element i: where its centre lies, the first input element from 0 to 1."""
    index = real_counting(write, axis.count)
    return (index + 0.5) * ratio(write, axis)


def inside(write: Writer, index: Value, size: Expr) -> Value:
    """Indices moved to the nearest element that there is."""
    limit = write.sizes.element(size) - write.number(1, write.index, 1)
    limit = write.with_rank(limit, index.rank)
    return index.maximum(0).minimum(limit)


def weighed(write: Writer, x: Value, positions: Value, weights: Value, axis: int) -> Value:
    """The sums of the elements at ``positions`` (outputs, elements) of one dim, each times its weight; float32."""
    gathered = write.gather(x, positions, axis)
    parts = gathered * write.along(weights, axis, gathered.rank)
    return write.reduce(ReduceOperation.SUM, parts, [axis + 1])


_EXACT = 1 << 10
"""The layer takes factors that are multiples of 1/1024 up to 1024."""
_CUBIC = -0.75


def axes_of(call: Call, x: Value, dims: int, factors: Sequence[float | None]) -> list[Axis]:
    """The dims of space with the output's sizes and the factors that count.

    A factor counts where the output's size is not exactly that many times the input's: PyTorch then still takes
    coordinates by the factor.
    """
    found = []
    sizes = zip(x.shape[-dims:], call.out.shape[-dims:], factors, strict=True)
    for size, count, factor in sizes:
        if factor is not None and factor > 0:
            exact = Fraction(factor)
            if call.write.builder.facts.equal(mul(exact.denominator, count), mul(exact.numerator, size)):
                factor = None
        found.append(Axis(size, count, factor if factor and factor > 0 else None))
    return found


def resized(
    call: Call,
    x: Value,
    axes: Sequence[Axis],
    mode: InterpolationMode,
    coordinates: ResizeCoordinateTransformation,
    rounding: ResizeRoundMode = ResizeRoundMode.FLOOR,
) -> Value:
    """``x`` with its last dims in other sizes."""
    write, dims = call.write, len(axes)
    if not x.dtype.is_float and mode is not InterpolationMode.NEAREST:
        raise refuse("integer-resize", "no layer interpolates integers", "interpolate in float32")
    layer = partial(Resize, mode, coordinates=coordinates, rounding=rounding, cubic_coeff=_CUBIC)
    corners = coordinates is ResizeCoordinateTransformation.ALIGN_CORNERS
    if x.dtype.is_float and (corners or all(axis.factor is None for axis in axes)):
        size, inputs = write.attribute([*x.shape[: x.rank - dims], *(axis.count for axis in axes)])
        return write.add(layer(size), x, *inputs)
    scales = [scale for axis in axes if (scale := _scale(write, axis)) is not None]
    if x.dtype.is_float and len(scales) == dims:
        return write.add(layer(scales=(*[1.0] * (x.rank - dims), *map(float, scales))), x)
    y = x if mode is InterpolationMode.NEAREST else write.cast(x, DType.FLOAT32)
    for place, axis in enumerate(axes):
        y = along(write, y, x.rank - dims + place, axis, mode, coordinates, rounding)
    return write.cast(y, x.dtype)


def _scale(write: Writer, axis: Axis) -> float | None:
    """The factor as the layer takes it; ``None`` where it does not, or gives another size."""
    factor = axis.factor
    if factor is None:
        whole_number = isinstance(axis.size, Num) and isinstance(axis.count, Num) and axis.size == axis.count
        return 1.0 if whole_number or write.builder.facts.equal(axis.size, axis.count) else None
    if not 0 < factor <= _EXACT or not float(factor * _EXACT).is_integer():
        return None
    return factor if write.builder.facts.equal(floor(mul(Fraction(factor), axis.size)), axis.count) else None


def along(
    write: Writer,
    x: Value,
    place: int,
    axis: Axis,
    mode: InterpolationMode,
    coordinates: ResizeCoordinateTransformation,
    rounding: ResizeRoundMode,
) -> Value:
    """One dim of ``x`` resized by gathers; floats are float32 unless the mode is NEAREST."""
    if mode is InterpolationMode.NEAREST:
        exact = coordinates is ResizeCoordinateTransformation.HALF_PIXEL
        at = centres(write, axis) if exact else real_counting(write, axis.count) * ratio(write, axis)
        assert rounding is (ResizeRoundMode.HALF_UP if exact else ResizeRoundMode.FLOOR)
        return write.gather(x, inside(write, write.cast(at.floor(), write.index), axis.size), place)
    at = centres(write, axis)
    at = at - 0.5
    low = at.floor()
    part = at - low
    offsets = (0, 1) if mode is InterpolationMode.LINEAR else (-1, 0, 1, 2)
    weights, positions = [], []
    for offset in offsets:
        distance = abs(part - float(offset))
        weight = 1.0 - distance if mode is InterpolationMode.LINEAR else cubic(write, distance, _CUBIC)
        index = write.cast(low, write.index) + write.number(offset, write.index, 1)
        weights.append(write.unsqueeze(weight, [1]))
        positions.append(write.unsqueeze(inside(write, index, axis.size), [1]))
    return weighed(write, x, write.concat(positions, 1), write.concat(weights, 1), place)


def cubic(write: Writer, distance: Value, a: float) -> Value:
    """The weight of an element at a distance below 2 in cubic convolution with coefficient ``a``; beyond it is 0."""

    def chain(*coefficients: float) -> Value:
        y = write.scalar(coefficients[0], distance)
        for coefficient in coefficients[1:]:
            y = y * distance + write.scalar(coefficient, distance)
        return y

    near = chain(a + 2, -(a + 3), 0.0, 1.0)
    far = chain(a, -5 * a, 8 * a, -4 * a)
    return write.select(distance < 1.0, near, write.select(distance < 2.0, far, 0.0))
