"""Interpolation to another size."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.antialiased import antialiased
from trtdiag.convert.layer_writers.resize import axes_of, resized, vector_factors
from trtdiag.convert.refusal import refuse
from trtdiag.convert.registry import register
from trtdiag.network.builder import Value
from trtdiag.network.dtype import DType
from trtdiag.network.layers.resize import InterpolationMode, ResizeRoundMode
from trtdiag.network.layers.resize import ResizeCoordinateTransformation as Coordinates

_SCALES = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}


def _nearest(call: Call, dims: int, factors: Sequence[float | None], *, exact: bool) -> Value:
    x = call.tensor("self" if "self" in call.arguments else "input")
    coordinates = Coordinates.HALF_PIXEL if exact else Coordinates.ASYMMETRIC
    rounding = ResizeRoundMode.HALF_UP if exact else ResizeRoundMode.FLOOR
    return resized(call, x, axes_of(call, x, dims, factors), InterpolationMode.NEAREST, coordinates, rounding)


def _smooth(call: Call, dims: int, factors: Sequence[float | None], mode: InterpolationMode) -> Value:
    x = call.tensor("self" if "self" in call.arguments else "input")
    coordinates = Coordinates.ALIGN_CORNERS if call.flag("align_corners") else Coordinates.HALF_PIXEL
    return resized(call, x, axes_of(call, x, dims, factors), mode, coordinates)


def _antialiased(call: Call, factors: Sequence[float | None], reach: int) -> Value:
    write, x = call.write, call.tensor("self" if "self" in call.arguments else "input")
    if not x.dtype.is_float:
        raise refuse("integer-resize", "no layer interpolates integers", "interpolate in float32")
    y = write.cast(x, DType.FLOAT32)
    corners = call.flag("align_corners")
    for place, axis in reversed(list(enumerate(axes_of(call, x, 2, factors)))):  # PyTorch begins with the rows
        if axis.factor is not None or not write.builder.facts.equal(axis.size, axis.count):
            y = antialiased(write, y, x.rank - 2 + place, axis, reach, align_corners=corners)
    return write.cast(y, x.dtype)


def _given(call: Call, dims: int) -> list[float | None]:
    """The factors of the overloads that have one argument for each."""
    numbers = [call.number_or_none(name) for name in _SCALES[dims]]
    return [None if number is None else float(number) for number in numbers]


def _register_nearest(dims: int, name: str, *, exact: bool) -> None:
    scales = ", ".join(f"float? {scale}=None" for scale in _SCALES[dims])
    register(
        f"aten::{name}(Tensor self, SymInt[{dims}] output_size, {scales}) -> Tensor",
        lambda call: _nearest(call, dims, _given(call, dims), exact=exact),
    )
    register(
        f"aten::{name}.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
        lambda call: _nearest(call, dims, vector_factors(call, dims), exact=exact),
    )


def _register_smooth(dims: int, name: str, mode: InterpolationMode) -> None:
    scales = ", ".join(f"float? {scale}=None" for scale in _SCALES[dims])
    register(
        f"aten::{name}(Tensor self, SymInt[{dims}] output_size, bool align_corners, {scales}) -> Tensor",
        lambda call: _smooth(call, dims, _given(call, dims), mode),
    )
    register(
        f"aten::{name}.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
        lambda call: _smooth(call, dims, vector_factors(call, dims), mode),
    )


def _register_antialiased(name: str, reach: int) -> None:
    scales = ", ".join(f"float? {scale}=None" for scale in _SCALES[2])
    register(
        f"aten::{name}(Tensor self, SymInt[2] output_size, bool align_corners, {scales}) -> Tensor",
        lambda call: _antialiased(call, _given(call, 2), reach),
    )
    register(
        f"aten::{name}.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
        lambda call: _antialiased(call, vector_factors(call, 2), reach),
    )


for _dims in (1, 2, 3):
    _register_nearest(_dims, f"upsample_nearest{_dims}d", exact=False)
    _register_nearest(_dims, f"_upsample_nearest_exact{_dims}d", exact=True)
_register_smooth(1, "upsample_linear1d", InterpolationMode.LINEAR)
_register_smooth(2, "upsample_bilinear2d", InterpolationMode.LINEAR)
_register_smooth(3, "upsample_trilinear3d", InterpolationMode.LINEAR)
_register_smooth(2, "upsample_bicubic2d", InterpolationMode.CUBIC)
_register_antialiased("_upsample_bilinear2d_aa", 1)
_register_antialiased("_upsample_bicubic2d_aa", 2)
