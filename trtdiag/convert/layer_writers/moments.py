"""Mean and variance, and what normalizations do with them; all in float32, as PyTorch computes them."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert.call import Call
from trtdiag.convert.writer import Writer
from trtdiag.network.layers.reduce import ReduceOperation
from trtdiag.network.value import Value


def moments(write: Writer, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """The mean of a float32 tensor over some axes, which stay as dims of size 1, and its variance.

    The variance is the average of the squared distances from the mean.
    """
    mean = write.reduce(ReduceOperation.AVG, x, axes, keep_dims=True)
    centred = x - mean
    return mean, write.reduce(ReduceOperation.AVG, centred * centred, axes, keep_dims=True)


def reciprocal_deviation(write: Writer, variance: Value, epsilon: float) -> Value:
    """``1 / sqrt(variance + epsilon)``."""
    return (variance + epsilon).sqrt().reciprocal()


def as_outputs(call: Call, first: int, *values: Value) -> list[Value | None]:
    """Values as the outputs of an op from this index on, where they are read."""
    write, pairs = call.write, zip(call.outputs[first:], values, strict=False)
    return [None if out is None else write.cast(write.reshape(own, out.shape), out.dtype) for out, own in pairs]


def affine(write: Writer, x: Value, scale: Value | None, bias: Value | None) -> Value:
    """``x * scale + bias``; what is not there does nothing."""
    if scale is not None:
        x = x * write.cast(scale, x.dtype)
    return x if bias is None else x + write.cast(bias, x.dtype)
