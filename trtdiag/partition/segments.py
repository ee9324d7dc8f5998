"""Segments, what crosses, and the order of execution, from the level of every op."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from trtdiag.graph.segment import DimSource, LocalSize, Segment, SizeInput
from trtdiag.partition.facts import Boundary, Step
from trtdiag.partition.op_graph import OpGraph, Plan, Tensor
from trtdiag.partition.segment_sizes import outside_sizes, segment_sizes
from trtdiag.partition.traffic import ByteCounts

_Sizes: TypeAlias = tuple[tuple[LocalSize, ...], tuple[SizeInput, ...]]
_Crossing: TypeAlias = tuple[Tensor, int, bool, list[int]]
"""A tensor, the segment that makes it (-1: none), whether PyTorch reads it or its shape, the other segments that do."""

_NO_SIZES: _Sizes = ((), ())
_NOWHERE: frozenset[str] = frozenset()


def assemble(
    plan: Plan, supported: Sequence[bool], levels: Sequence[int], count: ByteCounts
) -> tuple[tuple[Segment, ...], tuple[Boundary, ...], tuple[Step, ...], tuple[LocalSize, ...]]:
    """Return the segments that the levels make, in their order, and boundaries, steps and sizes as in ``Partitioned``.

    Args:
        plan: The ops, and the sizes that no engine can compute.
        supported: Whether an op is in a segment.
        levels: The segment of an op, from 1; for an op left to PyTorch how many segments run before it.
        count: Gives the bytes of tensors.

    Cost: linear in edges.
    """
    graph = plan.graph
    homes = [level - 1 if inside else -1 for level, inside in zip(levels, supported, strict=True)]
    members: list[list[int]] = [[] for _ in range(max(homes, default=-1) + 1)]
    for index, home in enumerate(homes):
        if home >= 0:
            members[home].append(index)
    crossing = _crossing(graph, homes, _NOWHERE)
    inputs: list[list[str]] = [[] for _ in members]
    for tensor, _, _, consumers in crossing:
        for home in consumers:
            inputs[home].append(tensor.name)
    sizes = [_NO_SIZES] * len(members)
    torch_sizes: tuple[LocalSize, ...] = ()
    shapes = _NOWHERE
    if graph.sizes:
        sizes = [_sizes(plan, ops, inputs[home]) for home, ops in enumerate(members)]
        wanted = [name for op, home in zip(graph.ops, homes, strict=True) if home < 0 and op.runs for name in op.sizes]
        wanted += [size.node for _, entering in sizes for size in entering]
        wanted += graph.output_sizes
        torch_sizes, shapes = shown_sizes(graph, homes, *outside_sizes(graph, wanted))
        if shapes:
            crossing = _crossing(graph, homes, shapes)
    boundaries = []
    outputs: list[list[str]] = [[] for _ in members]
    for tensor, home, read_by_torch, consumers in crossing:
        leaves = home >= 0 and (read_by_torch or tensor.is_output or bool(consumers))
        if leaves:
            outputs[home].append(tensor.name)
        if leaves or consumers:
            boundaries.append(
                Boundary(
                    tensor=tensor.name,
                    producer=None if home < 0 else home,
                    consumers=tuple(consumers),
                    read_by_torch=read_by_torch,
                    program_input=tensor.producer < 0,
                    program_output=tensor.is_output,
                    bytes=count.of(tensor.value),
                )
            )
    segments = [
        _segment(graph, home, ops, tuple(inputs[home]), tuple(outputs[home]), sizes[home])
        for home, ops in enumerate(members)
    ]
    return tuple(segments), tuple(boundaries), _steps(graph, homes, levels), torch_sizes


def _crossing(graph: OpGraph, homes: Sequence[int], shapes: frozenset[str]) -> list[_Crossing]:
    """Return the tensors that are read elsewhere than where they are made, or returned.

    Args:
        graph: The tensors.
        homes: The segment of each op, -1 for PyTorch.
        shapes: The tensors whose shape PyTorch reads.
    """
    found: list[_Crossing] = []
    for tensor in graph.tensors:
        name, producer, _, readers, is_output = tensor
        home = homes[producer] if producer >= 0 else -1
        # Most tensors are read where they are made, and nowhere else: no set is made of them.
        for reader in readers:
            if homes[reader] != home:
                break
        else:
            if not is_output and name not in shapes:
                continue
        read_in = {homes[reader] for reader in readers}
        read_by_torch = -1 in read_in or name in shapes
        found.append((tensor, home, read_by_torch, sorted(read_in - {home, -1})))
    return found


def _sizes(plan: Plan, ops: Sequence[int], inputs: Sequence[str]) -> _Sizes:
    graph = plan.graph
    wanted = [name for index in ops for name in graph.ops[index].sizes]
    if not wanted:
        return _NO_SIZES
    inside: set[str] = set()
    for index in ops:
        op = graph.ops[index]
        inside.update((op.name, *op.elements, *op.constants))
    return segment_sizes(graph, plan.limited_sizes, wanted, inputs, inside)


def _segment(
    graph: OpGraph, home: int, ops: Sequence[int], inputs: tuple[str, ...], outputs: tuple[str, ...], sizes: _Sizes
) -> Segment:
    names: list[str] = []
    elements: list[str] = []
    constants: list[str] = []
    work_ops = 0
    every = graph.ops
    for index in ops:  # one pass: there are as many ops as in the program
        op = every[index]
        names.append(op.name)
        elements += op.elements
        constants += op.constants
        work_ops += op.work
    once = tuple(dict.fromkeys(constants))
    return Segment(home, tuple(names), tuple(elements), inputs, outputs, once, *sizes, work_ops)


def _steps(graph: OpGraph, homes: Sequence[int], levels: Sequence[int]) -> tuple[Step, ...]:
    filled = set(homes)
    outside: dict[int, list[str]] = {}
    for op, home, level in zip(graph.ops, homes, levels, strict=True):
        if home < 0 and op.runs:
            outside.setdefault(level, []).extend((op.name, *op.elements))
    steps = []
    for level in range(max(levels, default=0) + 1):
        if level > 0 and level - 1 in filled:
            steps.append(Step(level - 1))
        if level in outside:
            steps.append(Step(None, tuple(outside[level])))
    return tuple(steps)


# Sizes that PyTorch reads off tensors which cross anyway, so that none leaves an engine for its size alone.


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
