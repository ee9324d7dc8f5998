"""Elements in another order along dims: flip, roll, rot90."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert import Call, Writer, converter
from trtdiag.convert.reshape_writer import Size
from trtdiag.network.known_values import greater
from trtdiag.network.layers.slice import SampleMode
from trtdiag.network.value import Value
from trtdiag.symbolic import Expr, Num, add, mod, mul, neg, sub


@converter
def flip(call: Call) -> Value:
    """aten::flip(Tensor self, int[] dims) -> Tensor"""
    x = call.tensor("self")
    return _flipped(call.write, x, [axis % x.rank for axis in call.integers("dims")] if x.rank else [])


@converter
def roll(call: Call) -> Value:
    """aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor"""
    write, x = call.write, call.tensor("self")
    shifts, dims = call.sizes("shifts"), call.integers("dims")
    if dims:
        return _rolled(write, x, shifts, [axis % x.rank for axis in dims]) if x.rank else x
    flat = write.reshape(x, [mul(*x.shape) if x.rank else 1])
    return write.reshape(_rolled(write, flat, shifts, [0]), x.shape)


@converter
def rot90(call: Call) -> Value:
    """aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor"""
    write, x = call.write, call.tensor("self")
    first, second = (axis % x.rank for axis in call.integers("dims"))
    quarters = call.integer("k") % 4
    turned = _flipped(write, x, {0: [], 1: [second], 2: [first, second], 3: [first]}[quarters])
    order = list(range(x.rank))
    if quarters % 2:
        order[first], order[second] = second, first
    return write.permute(turned, order)


def _flipped(write: Writer, x: Value, axes: Sequence[int]) -> Value:
    if not axes:
        return x
    start: list[Size] = [sub(size, 1) if axis in axes else 0 for axis, size in enumerate(x.shape)]
    return write.slice(x, start, x.shape, [-1 if axis in axes else 1 for axis in range(x.rank)])


def _rolled(write: Writer, x: Value, shifts: Sequence[Expr], axes: Sequence[int]) -> Value:
    """``x`` read from where its first element comes to stand, round and round; an axis named twice moves twice."""
    facts = write.builder.facts
    start: list[Size] = [0] * x.rank
    for axis, size in enumerate(x.shape):
        moved = add(0, *(shift for shift, other in zip(shifts, axes, strict=True) if other == axis))
        start[axis] = mod(neg(moved), greater(size, Num(1), facts))
    if all(begin == Num(0) for begin in start):
        return x
    return write.slice(x, start, x.shape, [1] * x.rank, SampleMode.WRAP)
