"""Ops that need a tensor with more elements than the target's tensors can have, though none is in the program."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from trtdiag.convert.writer import Writer
from trtdiag.graph.limit import Limit
from trtdiag.network.builder import Value
from trtdiag.network.facts import product
from trtdiag.symbolic import BoundsCache


def too_large(write: Writer, known: Sequence[Value], results: Sequence[Value], bounds: BoundsCache) -> Limit | None:
    """Why an op cannot be in an engine at the greatest sizes: one of its layers would make too large a tensor.

    The scores of attention are the usual case: PyTorch's kernels never hold them, layers that compose it do.  What the
    program itself has of that size is not asked for here: the rule SYM205 finds it.

    Args:
        write: What the op was written with.
        known: What the op reads.
        results: Its outputs.
        bounds: Over the ranges of the program; sizes whose greatest value is only estimated refuse nothing.
    """
    target = write.target
    if target.volume_is_per_layer:
        return None  # most layers take more there, and those that do not have large tensors of the program itself
    own = {product(value.shape) for value in (*known, *results)}
    for placed, tensor in write.builder.made_for(results):
        sizes = [bounds.of(dim).range.max for dim in tensor.shape]
        ends = [size for size in sizes if size is not None]
        # The greatest sizes one by one are no less than the greatest volume, and mostly known already.
        if len(ends) < len(sizes) or prod(ends) <= target.max_volume or product(tensor.shape) in own:
            continue
        volume = bounds.of(product(tensor.shape))
        most = volume.range.max
        if most is None or most <= target.max_volume or not volume.exact:
            continue
        shape = " x ".join(map(str, ends))
        return Limit(
            "too-many-elements",
            f"its {placed.layer.kind} makes {shape}, {most:,} elements at the greatest sizes, and a tensor of"
            f" TensorRT {target.version} has at most {target.max_volume:,}",
            "lower the greatest sizes of these dims, or compile one program for each part of the range",
        )
    return None
