"""A Normalization layer, or what is faster in its place."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from trtdiag.convert.layer_writers.cost import greatest
from trtdiag.convert.layer_writers.statistics import affine, moments, reciprocal_deviation
from trtdiag.convert.refusal import refuse
from trtdiag.convert.reshape_writer import Size, numbers
from trtdiag.convert.writer import Writer
from trtdiag.network import DType, Value
from trtdiag.network.layers import Normalization, ReduceOperation
from trtdiag.shapes.shape_constraints import elements
from trtdiag.symbolic import Expr, Num, as_expr


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
    parts = parts_of(write, x, axes) if groups == 1 else None
    if parts is not None:
        return normalized_in_parts(write, x, parts, epsilon, scale, bias)
    others = {value.dtype for value in (scale, bias) if value is not None}
    dtype = x.dtype if others <= {x.dtype} else DType.FLOAT32
    if scale is None or bias is None:
        sizes = [as_expr(size) for size in shape]
        given = scale if scale is not None else bias
        whole = given is None or numbers(sizes) is not None
        known = [int(size.value) if isinstance(size, Num) and whole else 1 for size in sizes]
        missing = torch.ones(known, dtype=dtype.torch)
        scale = write.constant(missing) if scale is None else scale
        bias = write.constant(torch.zeros_like(missing)) if bias is None else bias
    layer = Normalization(tuple(axes), epsilon, groups)
    y = write.add(layer, write.cast(x, dtype), write.cast(scale, dtype), write.cast(bias, dtype))
    return write.cast(y, x.dtype)


# Normalizations over many elements in two steps, where the target takes long for one.


MOST_AT_ONCE = 16384
"""Elements that are normalized at once: TensorRT 8.6 took 0.009 ms for 256 times as many, and 0.079 ms for 128 times
65,536, twice as many in all (float16, H200; docs/adr/0024)."""
_LEAST_PART = 256
"""Own choice: parts of few elements are no gain."""


Parts = tuple[tuple[Expr, ...], tuple[int, ...], tuple[int, ...]]


def parts_of(write: Writer, x: Value, axes: Sequence[int]) -> Parts | None:
    """How to take a tensor apart to normalize it: ``None`` where its target takes it whole.

    First comes its shape, with the normalized dims as these parts, then the dims of one part, and those that count the
    parts.

    Sizes that are known are cut into equal parts.  Of others the last dims whose elements are few enough are one part,
    the last alone where nothing bounds it.
    """
    first = min(axes, default=x.rank)
    wanted = "large-normalization" in write.target.slow and x.dtype is DType.FLOAT16
    if not wanted or tuple(axes) != tuple(range(first, x.rank)) or _fits(write, x.shape[first:]):
        return None
    count = elements(x.shape[first:])
    if isinstance(count, Num):
        length = max(part for part in range(1, MOST_AT_ONCE + 1) if int(count.value) % part == 0)
        split = (*x.shape[:first], Num(int(count.value) // length), Num(length))
        return (split, (first + 1,), (first,)) if length >= _LEAST_PART else None
    if len(axes) == 1:
        return None
    starts = (axis for axis in range(first + 1, x.rank) if _fits(write, x.shape[axis:]))
    start = next(starts, x.rank - 1)
    return x.shape, tuple(range(start, x.rank)), tuple(range(first, start))


def _fits(write: Writer, shape: Sequence[Expr]) -> bool:
    most = greatest(write, elements(shape))
    return most is not None and most <= MOST_AT_ONCE


def normalized_in_parts(
    write: Writer, x: Value, parts: Parts, epsilon: float, scale: Value | None, bias: Value | None
) -> Value:
    """What a Normalization gives, from the moments of parts; ``scale`` and ``bias`` broadcast to x.

    The variance of the whole is the mean of the parts' variances and of the squared distances of their means.
    """
    shape, inner, outer = parts
    apart = write.cast(write.reshape(x, shape), DType.FLOAT32)
    means, variances = moments(write, apart, inner)
    mean = write.reduce(ReduceOperation.AVG, _marked(write, means, outer), outer, keep_dims=True)
    away = means - mean
    variance = write.reduce(ReduceOperation.AVG, variances + away * away, outer, keep_dims=True)
    y = (apart - mean) * reciprocal_deviation(write, variance, epsilon)
    return write.cast(affine(write, write.reshape(y, x.shape), scale, bias), x.dtype)


def _marked(write: Writer, means: Value, outer: tuple[int, ...]) -> Value:
    """The means, with 0 times their Normalization added.

    TensorRT 8.6 compiles sums and products as one with a Normalization alone: without one among them each layer is a
    kernel of its own, which reads and writes the whole tensor (docs/adr/0024).
    """
    none = write.constant(torch.zeros([1] * means.rank))
    normal = write.add(Normalization(outer, 1e-5, 1), means, none, none)
    return means + normal
