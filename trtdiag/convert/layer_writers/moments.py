"""Mean and variance, and what normalizations do with them; all in float32, as PyTorch computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trtdiag.convert.call import Call
from trtdiag.convert.writer import Writer
from trtdiag.network.layers.reduce import ReduceOperation
from trtdiag.network.value import Value


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
    centred = x - mean
    return Moments(mean, write.reduce(ReduceOperation.AVG, centred * centred, axes, keep_dims=True))


def reciprocal_deviation(write: Writer, variance: Value, epsilon: float) -> Value:
    """``1 / sqrt(variance + epsilon)``."""
    return (variance + epsilon).sqrt().reciprocal()


def saved(call: Call, mean: Value, reciprocal: Value) -> list[Value | None]:
    """Mean and reciprocal deviation as the second and third output of an op, where they are read."""
    pairs = zip(call.outputs[1:3], (mean, reciprocal), strict=True)
    write = call.write
    return [None if out is None else write.cast(write.reshape(own, out.shape), out.dtype) for out, own in pairs]


def affine(write: Writer, x: Value, scale: Value | None, bias: Value | None) -> Value:
    """``x * scale + bias``; what is not there does nothing."""
    if scale is not None:
        x = x * write.cast(scale, x.dtype)
    return x if bias is None else x + write.cast(bias, x.dtype)
