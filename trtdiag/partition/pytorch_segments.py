"""What stays with PyTorch beside engines, as segments that AOTInductor may compile, and why the rest cannot be one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import torch
from torch.fx import Graph, Node

from trtdiag.graph.limit import Limit
from trtdiag.graph.node_kinds import NodeKind, classify
from trtdiag.graph.operators import OpOverload, schema_name, target_name
from trtdiag.graph.values import NodeReader, leaves
from trtdiag.lower.decomposable import draws
from trtdiag.options import PartitionOptions
from trtdiag.partition.facts import Cause, Fallback, Partitioned
from trtdiag.partition.partition import partition
from trtdiag.partition.segments import assemble
from trtdiag.partition.traffic import ByteCounts
from trtdiag.shapes.profile import DimProfile

LEAST_OPS = 2
"""Own choice: of an op by itself nothing is fused, and its kernel is PyTorch's own mostly."""

RANDOM = Limit("random-state", "it draws random numbers, and compiled code would draw others")
CUSTOM = Limit("custom-op", "AOTInductor has no code for it, since it is none of PyTorch's own ops")
ELSEWHERE = Limit("other-device", "it does not run on the device of the engines")
MEMORY = Limit("uninitialized", "it makes memory without values")
LAYOUT = Limit("layout", "its tensors are not plain ones: sparse, quantized, or in another layout")
_OWN = ("aten", "prims")
_NO_CALLS = (NodeKind.SHAPE, NodeKind.ELEMENT, NodeKind.ASSERT)


def pytorch_segments(
    graph: Graph, held: Collection[Node], device: str, symbols: Mapping[str, DimProfile], reader: NodeReader
) -> Partitioned:
    """A compiled program split into segments of what stays with PyTorch, and the rest, its engines among them.

    Args:
        graph: Of the compiled program.
        held: Placeholders whose value the program brings and does not change.
        device: The type of the device that engines run on.
        symbols: Sizes of symbols to count bytes at.
        reader: Reads metadata.
    """
    limits = {node.name: limit for node in graph.nodes if (limit := _limit(node, device)) is not None}
    names = [node.name for node in held]
    options = PartitionOptions(min_segment_ops=LEAST_OPS)
    found = partition(graph, limits, options, symbols=symbols, held=names, reader=reader)
    small = [index for index, segment in enumerate(found.segments) if segment.work_ops < LEAST_OPS]
    if not small:
        return found
    kept = [index for index in range(len(found.segments)) if index not in small]  # a program of one op alone
    return only(found, kept, symbols)


def only(parts: Partitioned, kept: Collection[int], symbols: Mapping[str, DimProfile]) -> Partitioned:
    """The partition with some of its segments; the ops of the others run one by one, when they did before.

    Args:
        parts: The partition.
        kept: The segments that stay segments, by index.
        symbols: Sizes of symbols to count bytes at.
    """
    level_of: dict[str, int] = {}
    inside: set[str] = set()
    done = 0
    for step in parts.steps:
        if step.segment is None:
            level_of |= dict.fromkeys(step.torch_nodes, done)
            continue
        ops = parts.segments[step.segment].ops
        if step.segment in kept:
            done += 1
            inside.update(ops)
        level_of |= dict.fromkeys(ops, done)
    graph = parts.plan.graph
    levels = [level_of.get(op.name, 0) for op in graph.ops]  # those without a level are never run
    within = [op.name in inside for op in graph.ops]
    segments, boundaries, steps, sizes = assemble(parts.plan, within, levels, ByteCounts(symbols))
    return replace(parts, segments=segments, boundaries=boundaries, steps=steps, torch_sizes=sizes)


def uncompiled(parts: Partitioned) -> Iterator[Fallback]:
    """The ops that run one by one whatever is measured; engines, views and checks are none of them."""
    work = {op.name: op.work for op in parts.plan.graph.ops}
    engines = {"compiled-already", MEMORY.code}
    for fallback in parts.fallback:
        if fallback.computes and work[fallback.node] and fallback.limit.code not in engines:
            yield replace(fallback, limit=ALONE) if fallback.cause is Cause.SMALL else fallback


ALONE = Limit("alone", f"fewer than {LEAST_OPS} ops that compute stand together")


def _limit(node: Node, device: str) -> Limit | None:
    """Why AOTInductor cannot compile a call; ``None`` where it is asked."""
    if node.op != "call_function" or classify(node) in _NO_CALLS:
        return None
    op = node.target
    if not isinstance(op, OpOverload):
        return None  # the partitioner says what it is
    if torch.Tag.nondeterministic_seeded in op.tags and draws(node, op):
        return RANDOM
    if op.namespace not in _OWN:
        return None if target_name(op) == "trtdiag.execute_engine.default" else CUSTOM
    if schema_name(op).startswith(("aten::empty", "aten::new_empty")):
        return MEMORY
    values = [value for each in (node, *node.all_input_nodes) for value in leaves(each.meta.get("val"))]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if any(tensor.device.type != device for tensor in tensors):
        return ELSEWHERE
    if any(tensor.layout != torch.strided or tensor.is_quantized for tensor in tensors):
        return LAYOUT
    return None
