"""Reads where a graph holds float32: what an op takes, what it yields, and by which ops."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import Node

from trtdiag.graph.node_kinds import NodeKind, classify
from trtdiag.graph.operators import arguments_of, given_to, operator_of, short_name
from trtdiag.graph.values import leaves
from trtdiag.lower.precision.families import HEAVY, REDUCTIONS, STAYS


def tensors(node: Node) -> list[torch.Tensor]:
    """Return the tensors that a node yields."""
    return [value for value in leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)]


def is_float32(node: Node) -> bool:
    """Whether a node yields float32."""
    return any(value.dtype == torch.float32 for value in tensors(node))


def float32_inputs(node: Node) -> list[Node]:
    """Return the inputs of a node that are float32 tensors."""
    return [source for source in node.all_input_nodes if is_float32(source)]


def name_of(node: Node) -> str:
    """Return the short name of a node's op, empty where it calls none."""
    op = operator_of(node)
    return "" if op is None else short_name(op)


def maker(node: Node) -> Node:
    """Return the op whose output a node picks, or the node itself."""
    while classify(node) is NodeKind.ELEMENT and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def readers(node: Node) -> Iterator[Node]:
    """Yield the nodes that read any output of an op."""
    for user in node.users:
        if classify(user) is NodeKind.ELEMENT:
            yield from readers(user)
        else:
            yield user


def is_op(node: Node) -> bool:
    """Whether a node computes or moves tensors by an operator."""
    return operator_of(node) is not None and classify(node) in (NodeKind.OP, NodeKind.NO_OP)


def is_heavy(node: Node) -> bool:
    """Whether half precision is worth two casts for this op."""
    return name_of(node) in HEAVY


def is_light(node: Node) -> bool:
    """Whether an op costs no more than a cast does: it moves values, or works element by element."""
    return is_op(node) and not is_heavy(node) and name_of(node) not in STAYS


def is_plain_cast(node: Node) -> bool:
    """Whether a node changes the dtype of a tensor and nothing else."""
    return name_of(node) == "_to_copy" and set(node.kwargs) == {"dtype"} and isinstance(node.args[0], Node)


def argument(node: Node, name: str) -> object:
    """Return what a call has at an argument by name, its default where it says nothing; ``None`` without one."""
    op = operator_of(node)
    known = None if op is None else arguments_of(op).get(name)
    if known is None:
        return None
    given = given_to(node, known)
    return known.default if given is None else given


def added_up(node: Node) -> int | None:
    """Return how many elements an op of REDUCTIONS adds up for one result; ``None`` where a size is dynamic."""
    name, source = name_of(node), node.args[0]
    shape = source.meta["val"].shape if isinstance(source, Node) and name in REDUCTIONS else ()
    if name in ("sum", "mean"):
        dims = argument(node, "dim")
        chosen = [dims] if isinstance(dims, int) else list(dims) if isinstance(dims, (list, tuple)) else []
        return _product([shape[dim] for dim in chosen] if chosen else list(shape))
    spatial = next((int(digit) for digit in "123" if f"{digit}d" in name), 0)
    if name.startswith("avg_pool"):
        kernel = argument(node, "kernel_size")
        sizes = [kernel] if isinstance(kernel, int) else list(kernel) if isinstance(kernel, (list, tuple)) else [None]
        return _product(sizes * spatial if len(sizes) == 1 else sizes)
    before, after = _product(list(shape[-spatial:])), _product(list(tensors(node)[0].shape[-spatial:]))
    return None if before is None or not after else -(-before // after)


def _product(sizes: Sequence[Any]) -> int | None:
    return math.prod(sizes) if all(isinstance(size, int) for size in sizes) else None
