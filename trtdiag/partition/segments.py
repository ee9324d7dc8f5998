"""Segments, what crosses, and the order of execution, from the level of every op."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trtdiag.partition.facts import Boundary, EnteringSize, Recomputed, Segment, Step
from trtdiag.partition.plan import OpGraph, Plan, Tensor
from trtdiag.partition.segment_sizes import outside_sizes, segment_sizes
from trtdiag.partition.shown_sizes import shown_sizes
from trtdiag.partition.traffic import ByteCounts

_Sizes = tuple[tuple[Recomputed, ...], tuple[EnteringSize, ...]]


@dataclass(frozen=True)
class Assembled:
    """The parts of a ``Partitioned`` that follow from the levels."""

    segments: tuple[Segment, ...]
    boundaries: tuple[Boundary, ...]
    steps: tuple[Step, ...]
    torch_sizes: tuple[Recomputed, ...]


def assemble(plan: Plan, supported: Sequence[bool], levels: Sequence[int], count: ByteCounts) -> Assembled:
    """Return the segments that the levels make, in their order.

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
    inputs = [_inputs(graph, homes, home, ops) for home, ops in enumerate(members)]
    sizes = [_sizes(plan, ops, inputs[home]) for home, ops in enumerate(members)]
    wanted = [name for op, home in zip(graph.ops, homes, strict=True) if home < 0 and op.runs for name in op.sizes]
    wanted += [size.node for _, entering in sizes for size in entering]
    wanted += graph.output_sizes
    torch_sizes: tuple[Recomputed, ...] = ()
    shapes: frozenset[str] = frozenset()
    if wanted:
        torch_sizes, shapes = shown_sizes(graph, homes, *outside_sizes(graph, wanted))
    boundaries = tuple(_boundaries(graph, homes, count, shapes))
    outputs: list[list[str]] = [[] for _ in members]
    for boundary in boundaries:
        if boundary.producer is not None and (boundary.consumers or boundary.read_by_torch or boundary.program_output):
            outputs[boundary.producer].append(boundary.tensor)
    segments = tuple(
        _segment(graph, home, ops, inputs[home], tuple(outputs[home]), sizes[home]) for home, ops in enumerate(members)
    )
    return Assembled(segments, boundaries, _steps(graph, supported, levels), torch_sizes)


def _inputs(graph: OpGraph, homes: Sequence[int], home: int, ops: Sequence[int]) -> tuple[str, ...]:
    read = sorted({place for index in ops for place in graph.ops[index].reads})
    return tuple(graph.tensors[p].name for p in read if _home(graph.tensors[p], homes) != home)


def _home(tensor: Tensor, homes: Sequence[int]) -> int:
    return homes[tensor.producer] if tensor.producer >= 0 else -1


def _sizes(plan: Plan, ops: Sequence[int], inputs: tuple[str, ...]) -> _Sizes:
    graph = plan.graph
    wanted = [name for index in ops for name in graph.ops[index].sizes]
    if not wanted:
        return (), ()
    inside: set[str] = set()
    for index in ops:
        op = graph.ops[index]
        inside.update((op.name, *op.elements, *op.constants))
    return segment_sizes(graph, plan.limited_sizes, wanted, inputs, inside)


def _boundaries(graph: OpGraph, homes: Sequence[int], count: ByteCounts, shapes: frozenset[str]) -> Iterator[Boundary]:
    for tensor in graph.tensors:
        name, producer, _, readers, is_output = tensor
        home = homes[producer] if producer >= 0 else -1
        # Most tensors are read where they are made, and nowhere else.
        for reader in readers:
            if homes[reader] != home:
                break
        else:
            if not is_output and name not in shapes:
                continue
        found = _boundary(tensor, home, {homes[reader] for reader in readers}, count, shape_read=name in shapes)
        if found is not None:
            yield found


def _boundary(tensor: Tensor, home: int, readers: set[int], count: ByteCounts, *, shape_read: bool) -> Boundary | None:
    consumers = tuple(sorted(readers - {home, -1}))
    read_by_torch = -1 in readers or shape_read
    if not consumers and (home < 0 or not (read_by_torch or tensor.is_output)):
        return None
    return Boundary(
        tensor=tensor.name,
        producer=None if home < 0 else home,
        consumers=consumers,
        read_by_torch=read_by_torch,
        program_input=tensor.producer < 0,
        program_output=tensor.is_output,
        bytes=count.of(tensor.value),
    )


def _segment(
    graph: OpGraph, home: int, ops: Sequence[int], inputs: tuple[str, ...], outputs: tuple[str, ...], sizes: _Sizes
) -> Segment:
    names: list[str] = []
    elements: list[str] = []
    constants: list[str] = []
    work_ops = 0
    for index in ops:
        op = graph.ops[index]
        names.append(op.name)
        elements += op.elements
        constants += op.constants
        work_ops += op.work
    once = tuple(dict.fromkeys(constants))
    return Segment(home, tuple(names), tuple(elements), inputs, outputs, once, sizes[0], sizes[1], work_ops)


def _steps(graph: OpGraph, supported: Sequence[bool], levels: Sequence[int]) -> tuple[Step, ...]:
    outside: list[list[str]] = [[] for _ in range(max(levels, default=0) + 1)]
    filled: set[int] = set()
    for op, level, inside in zip(graph.ops, levels, supported, strict=True):
        if inside:
            filled.add(level)
        elif op.runs:
            outside[level] += (op.name, *op.elements)
    steps = []
    for level in range(len(outside)):
        if level in filled:
            steps.append(Step(level - 1))
        if outside[level]:
            steps.append(Step(None, tuple(outside[level])))
    return tuple(steps)
