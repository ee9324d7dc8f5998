"""Normalization with statistics that are given: one factor and one summand for each channel."""

from __future__ import annotations

import torch

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.moments import affine, reciprocal_deviation
from trtdiag.convert.refusal import refuse
from trtdiag.convert.writer import Writer
from trtdiag.network.dtype import DType
from trtdiag.network.value import Value

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
