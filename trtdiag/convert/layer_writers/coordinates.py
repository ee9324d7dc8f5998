"""Where an output element lies in the input, and the elements around it: what no Resize layer can be told."""

from __future__ import annotations

from dataclasses import dataclass

from trtdiag.convert.writer import Writer
from trtdiag.network import DType, Value
from trtdiag.network.layers.reduce import ReduceOperation
from trtdiag.symbolic import Expr, truediv


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
