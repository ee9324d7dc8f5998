"""Images at the points of a grid."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeAlias

from trtdiag.convert import Call, Writer, converter, refuse
from trtdiag.convert.layer_writers.resize import inside
from trtdiag.network import DType, Value
from trtdiag.network.layers import ElementWiseOperation as Op, Gather, GridSample, InterpolationMode, SampleMode
from trtdiag.shapes.shape_constraints import elements
from trtdiag.symbolic import Expr

_MODES = (InterpolationMode.LINEAR, InterpolationMode.NEAREST, InterpolationMode.CUBIC)
_SAMPLES = (SampleMode.FILL, SampleMode.CLAMP, SampleMode.REFLECT)


@converter
def grid_sampler(call: Call) -> Value:
    """aten::grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) ->
        Tensor

    Volumes are sampled by gathers; cubic sampling is refused for them, as in PyTorch.

    aten::grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) ->
        Tensor
    aten::grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) ->
        Tensor
    """
    image, grid = call.tensor("input"), call.tensor("grid")
    mode = _MODES[call.integer("interpolation_mode")]
    sample = _SAMPLES[call.integer("padding_mode")]
    corners = call.flag("align_corners")
    if image.rank == 4:
        return call.write.add(GridSample(mode, corners, sample), image, grid)
    if mode is InterpolationMode.CUBIC:
        raise refuse("cubic-volume", "PyTorch samples no volumes with the cubic kernel")
    nearest = mode is InterpolationMode.NEAREST
    return sampled_volume(call.write, image, grid, nearest=nearest, align_corners=corners, sample=sample)


@converter
def cudnn_grid_sampler(call: Call) -> Value:
    """aten::cudnn_grid_sampler(Tensor self, Tensor grid) -> Tensor output"""
    layer = GridSample(InterpolationMode.LINEAR, True, SampleMode.FILL)
    return call.write.add(layer, call.tensor("self"), call.tensor("grid"))


# Volumes at the points of a grid, by gathers: TensorRT's layer takes images only.


_Tap: TypeAlias = "tuple[Value, Value | None, Value]"
"""One neighbour of each point along one dim: its index, moved inside, its weight, and whether it is inside."""


def sampled_volume(
    write: Writer, volume: Value, grid: Value, *, nearest: bool, align_corners: bool, sample: SampleMode
) -> Value:
    """``F.grid_sample`` of (batch, channels, d, h, w) at a grid (batch, d', h', w', 3) of x, y and z."""
    if not write.builder.facts.equal(volume.shape[0], grid.shape[0]):
        raise refuse("batch-not-proven", "volume and grid are not proven to have equally many elements of the batch")
    batch, channels, *sizes = volume.shape
    points = elements(grid.shape[1:4])
    places = write.cast(write.reshape(grid, [batch, points, 3]), DType.FLOAT32)
    taps = []
    for axis, size in enumerate(sizes):
        at = write.reshape(write.part(places, 2, 2 - axis, 1), [batch, points])
        taps.append(_taps(write, _coordinate(write, at, size, align_corners, sample), size, nearest))
    flat = write.cast(write.reshape(volume, [batch, channels, elements(sizes)]), DType.FLOAT32)
    y = write.fold(Op.SUM, (_part(write, flat, corner, sizes) for corner in itertools.product(*taps)))
    return write.cast(write.reshape(y, [batch, channels, *grid.shape[1:4]]), volume.dtype)


def _part(write: Writer, flat: Value, corner: Sequence[_Tap], sizes: list[Expr]) -> Value:
    """One neighbour of each point, 0 where it is outside, times its weight."""
    indices, weights, inner = zip(*corner, strict=True)
    index = write.row_major(zip(indices, sizes, strict=True))
    valid = write.fold(Op.AND, inner)
    known = [weight for weight in weights if weight is not None]
    part = write.select(write.unsqueeze(valid, [1]), write.add(Gather(axis=2, elementwise_dims=1), flat, index), 0.0)
    return part * write.unsqueeze(write.fold(Op.PROD, known), [1]) if known else part


def _coordinate(write: Writer, at: Value, size: Expr, align_corners: bool, sample: SampleMode) -> Value:
    """Where in a dim a point lies, from -1 to 1: 0 is the centre of the first element."""
    length = write.size_like(size, at)
    one, half = write.scalar(1.0, at), write.scalar(0.5, at)
    last = length - one
    y = at + one
    y = y * half * last if align_corners else (y * length - one) * half
    if sample is SampleMode.REFLECT:
        # Mirrored at the centres of the outermost elements, or at their edges.
        low = write.scalar(0.0 if align_corners else -0.5, at)
        span = last.maximum(one) if align_corners else length
        away = abs(y - low)
        flips = (away / span).floor()
        rest = away - flips * span
        pairs = (flips * half).floor()
        y = write.select(flips - (pairs + pairs) > half, span - rest, rest) + low
    if sample is not SampleMode.FILL:
        y = y.maximum(0.0).minimum(last)
    return y


def _taps(write: Writer, at: Value, size: Expr, nearest: bool) -> list[_Tap]:
    if nearest:
        return [_tap(write, at.round(), None, size)]
    low = at.floor()
    part = at - low
    return [_tap(write, low, 1.0 - part, size), _tap(write, low + 1.0, part, size)]


def _tap(write: Writer, place: Value, weight: Value | None, size: Expr) -> _Tap:
    valid = (place > -1.0) & (place < write.size_like(size, place))
    return inside(write, write.cast(place, write.index), size), weight, valid
