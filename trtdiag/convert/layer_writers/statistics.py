"""Mean and variance, of the input or given, and what normalizations do with them; in float32, as PyTorch does."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from trtdiag.convert.call import Call
from trtdiag.convert.refusal import refuse
from trtdiag.convert.writer import Writer
from trtdiag.network import DType, Value
from trtdiag.network.layers.reduce import ReduceOperation

_STATISTICS = ("running_mean", "running_var", "weight", "bias")


def by_channel(write: Writer, x: Value, vector: Value | None) -> Value | None:
    """A vector with one element a channel in a shape that broadcasts to x."""
    return None if vector is None else write.along(vector, 1, x.rank)


def inference(call: Call, epsilon: float) -> Value:
    """``(x - mean) / sqrt(variance + epsilon) * weight + bias`` as ``x * a + b``, in float32.

    Where the program brings all four, a and b are constants, computed as PyTorch does.
    """
    write, x = call.write, call.tensor("input")
    if not (call.has("running_mean") and call.has("running_var")):
        raise refuse("argument-kind", "it has no running statistics, and does not take those of its input")
    wide = write.cast(x, DType.FLOAT32)
    folded = _folded(call, epsilon)
    if folded is not None:
        a, b = (write.constant(part.reshape(1, -1, *[1] * (x.rank - 2))) for part in folded)
    else:
        mean, variance = (call.operand(name, DType.FLOAT32) for name in _STATISTICS[:2])
        weight, bias = (call.operand(name, DType.FLOAT32) if call.has(name) else None for name in _STATISTICS[2:])
        scale = reciprocal_deviation(write, variance, epsilon)
        if weight is not None:
            scale = scale * weight
        moved = mean * scale
        shift = 0.0 - moved if bias is None else bias - moved
        a, b = (write.along(part, 1, x.rank) for part in (scale, shift))
    return write.cast(affine(write, wide, a, b), x.dtype)


def _folded(call: Call, epsilon: float) -> tuple[torch.Tensor, torch.Tensor] | None:
    present = [name for name in _STATISTICS if call.has(name)]
    contents = {name: call.held.get(name) for name in present}
    if any(content is None for content in contents.values()):
        return None
    given = {name: content.detach().float() for name, content in contents.items() if content is not None}
    scale = torch.rsqrt(given["running_var"] + epsilon) * given.get("weight", torch.ones(()))
    return scale, given.get("bias", torch.zeros(())) - given["running_mean"] * scale


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
