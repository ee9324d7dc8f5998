"""Interpolation to another size."""

from __future__ import annotations

from math import ceil

from trtdiag.convert import Call, Writer, converter, refuse
from trtdiag.convert.layer_writers.resize import Axis, axes_of, cubic, inside, ratio, real_counting, resized, weighed
from trtdiag.convert.reshape_writer import Size
from trtdiag.network import DType, Value
from trtdiag.network.layers.reduce import ReduceOperation
from trtdiag.network.layers.resize import (
    InterpolationMode,
    ResizeCoordinateTransformation as Coordinates,
    ResizeRoundMode,
)
from trtdiag.symbolic import add, as_expr, floordiv, maximum, minimum, mul, neg, sub, truediv

_SCALES = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}


@converter
def interpolated(call: Call) -> Value:
    """aten::upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor
    aten::upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor
    aten::upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor
    aten::upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor
    aten::upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float?
        scales_w=None) -> Tensor
    aten::upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor
    aten::_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor
    aten::_upsample_nearest_exact1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor
    aten::_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) ->
        Tensor
    aten::_upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor
    aten::_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None,
        float? scales_w=None) -> Tensor
    aten::_upsample_nearest_exact3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor
    aten::upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> Tensor
    aten::upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) ->
        Tensor
    aten::upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float?
        scales_w=None) -> Tensor
    aten::upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) ->
        Tensor
    aten::upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, float?
        scales_h=None, float? scales_w=None) -> Tensor
    aten::upsample_trilinear3d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) ->
        Tensor
    aten::upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float?
        scales_w=None) -> Tensor
    aten::upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) ->
        Tensor
    """
    name, mode, rounding = call.op_name, InterpolationMode.LINEAR, ResizeRoundMode.FLOOR
    coordinates = Coordinates.ALIGN_CORNERS if call.flag("align_corners") else Coordinates.HALF_PIXEL
    if "cubic" in name:
        mode = InterpolationMode.CUBIC
    elif "nearest" in name:
        mode, exact = InterpolationMode.NEAREST, "exact" in name
        coordinates = Coordinates.HALF_PIXEL if exact else Coordinates.ASYMMETRIC
        rounding = ResizeRoundMode.HALF_UP if exact else ResizeRoundMode.FLOOR
    x = _input(call)
    return resized(call, x, _axes(call, x), mode, coordinates, rounding)


@converter
def smooth_antialiased(call: Call) -> Value:
    """aten::_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
        float? scales_w=None) -> Tensor
    aten::_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors)
        -> Tensor
    aten::_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float?
        scales_w=None) -> Tensor
    aten::_upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) ->
        Tensor
    """
    write, x = call.write, _input(call)
    if not x.dtype.is_float:
        raise refuse("integer-resize", "no layer interpolates integers", "interpolate in float32")
    y = write.cast(x, DType.FLOAT32)
    reach, corners = 2 if "cubic" in call.op_name else 1, call.flag("align_corners")
    for place, axis in reversed(list(enumerate(_axes(call, x)))):  # PyTorch begins with the rows
        if axis.factor is not None or not write.builder.facts.equal(axis.size, axis.count):
            y = antialiased(write, y, x.rank - 2 + place, axis, reach, align_corners=corners)
    return write.cast(y, x.dtype)


def _input(call: Call) -> Value:
    return call.tensor("self" if "self" in call.arguments else "input")


def _axes(call: Call, x: Value) -> list[Axis]:
    """The dims of space; the ``vec`` overloads have one list of factors, the others an argument for each."""
    if "scale_factors" in call.arguments:
        factors = call.arguments["scale_factors"] or [None] * call.dims
    else:
        factors = [call.number_or_none(name) for name in _SCALES[call.dims]]
    return axes_of(call, x, call.dims, [None if factor is None else float(factor) for factor in factors])


# Interpolation that first blurs what it makes smaller, so that each input element counts (antialias=True).


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
