"""Mean and variance, and what normalizations do with them; all in float32, as PyTorch computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trtdiag.convert.writer import Writer
from trtdiag.network.builder import Value
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.reduce import ReduceOperation
from trtdiag.network.layers.unary import UnaryOperation


@dataclass(frozen=True)
class Moments:
    """Of a tensor over some axes, which stay as dims of size 1.

    Attributes:
        mean: The average.
        variance: The average of the squared distances from it.
    """

    mean: Value
    variance: Value


def moments(write: Writer, x: Value, axes: Sequence[int]) -> Moments:
    """Of a float32 tensor."""
    mean = write.reduce(ReduceOperation.AVG, x, axes, keep_dims=True)
    centred = write.elementwise(Op.SUB, x, mean)
    squares = write.elementwise(Op.PROD, centred, centred)
    return Moments(mean, write.reduce(ReduceOperation.AVG, squares, axes, keep_dims=True))


def reciprocal_deviation(write: Writer, variance: Value, epsilon: float) -> Value:
    """``1 / sqrt(variance + epsilon)``."""
    shifted = write.elementwise(Op.SUM, variance, write.scalar(epsilon, variance))
    return write.unary(UnaryOperation.RECIP, write.unary(UnaryOperation.SQRT, shifted))


def affine(write: Writer, x: Value, scale: Value | None, bias: Value | None) -> Value:
    """``x * scale + bias``; what is not there does nothing."""
    if scale is not None:
        x = write.elementwise(Op.PROD, x, write.cast(scale, x.dtype))
    return x if bias is None else write.elementwise(Op.SUM, x, write.cast(bias, x.dtype))
