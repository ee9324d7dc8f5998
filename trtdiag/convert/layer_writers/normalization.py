"""A Normalization layer, or what is faster in its place."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from trtdiag.convert.layer_writers.large_norms import normalized_in_parts, parts_of
from trtdiag.convert.refusal import refuse
from trtdiag.convert.reshape_writer import Size, numbers
from trtdiag.convert.writer import Writer
from trtdiag.network.dtype import DType
from trtdiag.network.layers.normalization import Normalization
from trtdiag.network.value import Value
from trtdiag.symbolic import Num, as_expr


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
