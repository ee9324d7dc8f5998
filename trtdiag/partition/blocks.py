"""Segments cut into blocks, to measure and to run each in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import torch
from torch.fx import Graph, Node

from trtdiag.graph.values import leaves
from trtdiag.partition.facts import Partitioned
from trtdiag.partition.segments import assemble
from trtdiag.partition.traffic import ByteCounts
from trtdiag.shapes.profile import DimProfile

LEAST_WORK_OPS = 3
"""Own choice: less is a piece of what stands beside it, not a block."""
Block = tuple[str, ...]
"""Op nodes that follow one another."""


def blocks_by_module(
    ops: Sequence[str], module_path: Callable[[str], str], computes: Callable[[str], bool], depth: int
) -> list[Block]:
    """The ops of a segment by the modules that they belong to: a block for each run of ops of one module.

    Args:
        ops: Op nodes in order.
        module_path: The module of an op (``layers.3.attn``), empty for the root's own ops.
        computes: Whether an op is more than a view.
        depth: How deep modules are told apart: 1 for the root's own children.

    Returns:
        Blocks in order, each with at least ``LEAST_WORK_OPS`` ops that compute, unless there is one alone.
    """
    runs: list[list[str]] = []
    last = None
    for op in ops:
        module = ".".join(module_path(op).split(".")[:depth])
        if not runs or (module and module != last):
            runs.append([])
            last = module
        runs[-1].append(op)
    found: list[list[str]] = []
    for run in runs:
        small = sum(map(computes, run)) < LEAST_WORK_OPS
        if found and (small or sum(map(computes, found[-1])) < LEAST_WORK_OPS):
            found[-1] += run
        else:
            found.append(run)
    return [tuple(run) for run in found]


def in_pairs(blocks: Sequence[Block]) -> list[Block]:
    """Half as many blocks: each two that follow one another as one."""
    return [sum(blocks[index : index + 2], ()) for index in range(0, len(blocks), 2)]


def cut(parts: Partitioned, blocks: Sequence[Sequence[Block]], symbols: Mapping[str, DimProfile]) -> Partitioned:
    """The partition with each segment cut into blocks, which are segments of their own.

    Args:
        parts: What is cut.
        blocks: Of each segment its ops, in order.
        symbols: Sizes of symbols to count bytes at.
    """
    graph = parts.plan.graph
    begins = [0, *accumulate(map(len, blocks))]
    level_of: dict[str, int] = {}
    for segment, its in enumerate(blocks):
        for number, block in enumerate(its):
            level_of |= dict.fromkeys(block, begins[segment] + number + 1)
    inside = [op.name in level_of for op in graph.ops]
    done = 0
    for step in parts.steps:
        if step.segment is None:
            level_of |= dict.fromkeys(step.torch_nodes, begins[done])
        else:
            done += 1
    levels = [level_of.get(op.name, 0) for op in graph.ops]  # those without a level are never run
    segments, boundaries, steps, sizes = assemble(parts.plan, inside, levels, ByteCounts(symbols))
    return replace(parts, segments=segments, boundaries=boundaries, steps=steps, torch_sizes=sizes)


def likeness(graph: Graph, block: Block) -> str:
    """What a block has in common with those that compute the same of other weights: equal texts, equal costs."""
    inside = set(block)
    places: dict[Node, int] = {}

    def told(value: object) -> str:
        if not isinstance(value, Node):
            return repr(value)
        if value not in places:
            places[value] = len(places)
        return f"%{places[value]}:{','.join(_kinds(value))}"

    lines = []
    for node in graph.nodes:
        if node.name in inside:
            lines.append(
                f"{node.target}{_mapped(node.args, told)}{_mapped(tuple(node.kwargs.items()), told)}{told(node)}"
            )
    return "\n".join(lines)


def _kinds(node: Node) -> Iterator[str]:
    for value in leaves(node.meta.get("val")):
        yield f"{value.dtype}{list(value.shape)}" if isinstance(value, torch.Tensor) else str(value)


def _mapped(value: object, told: Callable[[object], str]) -> str:
    if isinstance(value, (tuple, list)):
        return f"({' '.join(_mapped(each, told) for each in value)})"
    return told(value)
