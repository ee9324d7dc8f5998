"""Mean and variance, and what normalizations do with them; all in float32, as PyTorch computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from trtdiag.convert.refused import refuse
from trtdiag.convert.writer import Size, Writer
from trtdiag.network.builder import Value
from trtdiag.network.dtype import DType
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.normalization import Normalization
from trtdiag.network.layers.reduce import ReduceOperation
from trtdiag.network.layers.unary import UnaryOperation
from trtdiag.symbolic import Num


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


def normalized(
    write: Writer,
    x: Value,
    axes: Sequence[int],
    epsilon: float,
    scale: Value | None,
    bias: Value | None,
    *,
    shape: Sequence[Size],
    groups: int = 1,
) -> Value:
    """A Normalization layer.  ``scale`` and ``bias`` are in ``shape``, which broadcasts to x; 1 and 0 where not given.

    Where they are of another dtype than x it is computed in float32: a layer takes one dtype.
    """
    if epsilon < 0:
        raise refuse("negative-epsilon", f"eps is {epsilon}, and the layer takes none below 0")
    others = {value.dtype for value in (scale, bias) if value is not None}
    dtype = x.dtype if others <= {x.dtype} else DType.FLOAT32
    static = [int(size.value) if isinstance(size, Num) else size for size in shape]
    sizes = [size if isinstance(size, int) else 1 for size in static]
    if scale is None or bias is None:
        given = scale if scale is not None else bias
        whole = given is None or all(isinstance(size, int) for size in static)
        missing = torch.ones(sizes if whole else [1] * len(sizes), dtype=dtype.torch)
        scale = write.constant(missing) if scale is None else scale
        bias = write.constant(torch.zeros_like(missing)) if bias is None else bias
    layer = Normalization(tuple(axes), epsilon, groups)
    y = write.add(layer, write.cast(x, dtype), write.cast(scale, dtype), write.cast(bias, dtype))
    return write.cast(y, x.dtype)
