"""Volumes at the points of a grid, by gathers: TensorRT's layer takes images only."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from trtdiag.convert.layer_writers.coordinates import inside
from trtdiag.convert.refusal import refuse
from trtdiag.convert.writer import Writer
from trtdiag.network.builder import Value
from trtdiag.network.dtype import DType
from trtdiag.network.facts import product
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.gather import Gather
from trtdiag.network.layers.slice import SampleMode
from trtdiag.network.layers.unary import UnaryOperation
from trtdiag.symbolic import Expr


@dataclass(frozen=True)
class _Tap:
    """One neighbour of each point along one dim: its index, moved inside, its weight, and whether it is inside."""

    index: Value
    weight: Value | None
    valid: Value


def sampled_volume(
    write: Writer, volume: Value, grid: Value, *, nearest: bool, align_corners: bool, sample: SampleMode
) -> Value:
    """``F.grid_sample`` of (batch, channels, d, h, w) at a grid (batch, d', h', w', 3) of x, y and z."""
    if not write.builder.facts.equal(volume.shape[0], grid.shape[0]):
        raise refuse("batch-not-proven", "volume and grid are not proven to have equally many elements of the batch")
    batch, channels, *sizes = volume.shape
    points = product(grid.shape[1:4])
    places = write.cast(write.reshape(grid, [batch, points, 3]), DType.FLOAT32)
    taps = []
    for axis, size in enumerate(sizes):
        at = write.reshape(write.part(places, 2, 2 - axis, 1), [batch, points])
        taps.append(_taps(write, _coordinate(write, at, size, align_corners, sample), size, nearest))
    flat = write.cast(write.reshape(volume, [batch, channels, product(sizes)]), DType.FLOAT32)
    y = write.fold(Op.SUM, (_part(write, flat, corner, sizes) for corner in itertools.product(*taps)))
    return write.cast(write.reshape(y, [batch, channels, *grid.shape[1:4]]), volume.dtype)


def _part(write: Writer, flat: Value, corner: tuple[_Tap, ...], sizes: list[Expr]) -> Value:
    """One neighbour of each point, 0 where it is outside, times its weight."""
    index, valid, weight = corner[0].index, corner[0].valid, corner[0].weight
    for tap, size in zip(corner[1:], sizes[1:], strict=True):
        length = write.reshape(write.sizes.element(size), [1, 1])
        index = write.elementwise(Op.SUM, write.elementwise(Op.PROD, index, length), tap.index)
        valid = write.elementwise(Op.AND, valid, tap.valid)
        if weight is not None and tap.weight is not None:
            weight = write.elementwise(Op.PROD, weight, tap.weight)
    part = write.add(Gather(axis=2, elementwise_dims=1), flat, index)
    part = write.select(write.unsqueeze(valid, [1]), part, write.scalar(0.0, part))
    return part if weight is None else write.elementwise(Op.PROD, part, write.unsqueeze(weight, [1]))


def _coordinate(write: Writer, at: Value, size: Expr, align_corners: bool, sample: SampleMode) -> Value:
    """Where in a dim a point lies, from -1 to 1: 0 is the centre of the first element."""
    length = write.reshape(write.cast(write.sizes.element(size), DType.FLOAT32), [1, 1])
    one, half = write.scalar(1.0, at), write.scalar(0.5, at)
    last = write.elementwise(Op.SUB, length, one)
    y = write.elementwise(Op.SUM, at, one)
    if align_corners:
        y = write.elementwise(Op.PROD, write.elementwise(Op.PROD, y, half), last)
    else:
        y = write.elementwise(Op.PROD, write.elementwise(Op.SUB, write.elementwise(Op.PROD, y, length), one), half)
    if sample is SampleMode.REFLECT:
        # Mirrored at the centres of the outermost elements, or at their edges.
        low = write.scalar(0.0 if align_corners else -0.5, at)
        span = write.elementwise(Op.MAX, last, one) if align_corners else length
        away = write.unary(UnaryOperation.ABS, write.elementwise(Op.SUB, y, low))
        flips = write.unary(UnaryOperation.FLOOR, write.elementwise(Op.DIV, away, span))
        rest = write.elementwise(Op.SUB, away, write.elementwise(Op.PROD, flips, span))
        pairs = write.unary(UnaryOperation.FLOOR, write.elementwise(Op.PROD, flips, half))
        odd = write.elementwise(
            Op.GREATER, write.elementwise(Op.SUB, flips, write.elementwise(Op.SUM, pairs, pairs)), half
        )
        y = write.elementwise(Op.SUM, write.select(odd, write.elementwise(Op.SUB, span, rest), rest), low)
    if sample is not SampleMode.FILL:
        y = write.elementwise(Op.MIN, write.elementwise(Op.MAX, y, write.scalar(0.0, y)), last)
    return y


def _taps(write: Writer, at: Value, size: Expr, nearest: bool) -> list[_Tap]:
    if nearest:
        return [_tap(write, write.unary(UnaryOperation.ROUND, at), None, size)]
    low = write.unary(UnaryOperation.FLOOR, at)
    one = write.scalar(1.0, at)
    part = write.elementwise(Op.SUB, at, low)
    rest = write.elementwise(Op.SUB, one, part)
    return [_tap(write, low, rest, size), _tap(write, write.elementwise(Op.SUM, low, one), part, size)]


def _tap(write: Writer, place: Value, weight: Value | None, size: Expr) -> _Tap:
    length = write.reshape(write.cast(write.sizes.element(size), DType.FLOAT32), [1, 1])
    valid = write.elementwise(
        Op.AND,
        write.elementwise(Op.GREATER, place, write.scalar(-1.0, place)),
        write.elementwise(Op.LESS, place, length),
    )
    index = inside(write, write.cast(place, write.index), size)
    return _Tap(index, weight, valid)
