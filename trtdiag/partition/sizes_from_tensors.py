"""Sizes that PyTorch reads off tensors which cross anyway, so that none leaves an engine for its size alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trtdiag.graph.segment import DimSource, LocalSize
from trtdiag.partition.op_graph import OpGraph, Tensor


def shown_sizes(
    graph: OpGraph, homes: Sequence[int], sizes: Sequence[LocalSize], shapes: frozenset[str]
) -> tuple[tuple[LocalSize, ...], frozenset[str]]:
    """Return the same sizes, and the tensors whose shape PyTorch needs for them.

    A tensor that is read for its shape alone is replaced by one of the same segment that leaves it and has the size.

    Args:
        graph: The tensors.
        homes: The segment of each op, -1 for PyTorch.
        sizes: What PyTorch computes.
        shapes: What it reads for that.
    """
    inside = {name for name in shapes if _only_shape(graph.tensors[graph.tensor_index[name]], homes)}
    if not inside:
        return tuple(sizes), shapes
    shown: dict[tuple[int, object], DimSource] = {}
    for tensor in graph.tensors:
        if tensor.producer >= 0 and homes[tensor.producer] >= 0 and not _only_shape(tensor, homes):
            for dim, extent in enumerate(tensor.value.dims if tensor.value is not None else ()):
                shown.setdefault((homes[tensor.producer], extent), DimSource(tensor.name, dim, extent))

    def nearest(source: DimSource) -> DimSource:
        if source.tensor not in inside:
            return source
        home = homes[graph.tensors[graph.tensor_index[source.tensor]].producer]
        return shown.get((home, source.extent), source)

    found = tuple(replace(size, sources=tuple(map(nearest, size.sources))) for size in sizes)
    read = {source.tensor for size in found for source in size.sources}
    read |= {operand for size in found for operand in size.operands}
    return found, frozenset(name for name in shapes if name not in inside or name in read)


def _only_shape(tensor: Tensor, homes: Sequence[int]) -> bool:
    """Whether nothing outside of the segment that makes a tensor reads its elements."""
    home = homes[tensor.producer] if tensor.producer >= 0 else -1
    return home >= 0 and not tensor.is_output and all(homes[reader] == home for reader in tensor.readers)
