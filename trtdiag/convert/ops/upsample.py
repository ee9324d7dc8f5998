"""Interpolation to another size."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.antialiased import antialiased
from trtdiag.convert.layer_writers.coordinates import Axis
from trtdiag.convert.layer_writers.resize import axes_of, resized
from trtdiag.convert.refusal import refuse
from trtdiag.convert.registry import converter
from trtdiag.network.dtype import DType
from trtdiag.network.layers.resize import (
    InterpolationMode,
    ResizeCoordinateTransformation as Coordinates,
    ResizeRoundMode,
)
from trtdiag.network.value import Value

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
