"""Which node's memory a node's output lives in: views and in-place ops, by their schemas' alias annotations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain, cycle
from typing import TypeAlias

import torch
from torch.fx import Graph, Node

from trtdiag.graph.node_kinds import NodeKind, classify, kind_of_target
from trtdiag.graph.operators import (
    OpOverload,
    arguments_of,
    given_to,
    operator_of,
    schema_name,
    shared_argument,
    writes,
)
from trtdiag.graph.values import NodeReader

# Annotated as views, but they copy where the elements do not lie in memory as the new sizes ask.
_RESHAPES = frozenset({"aten::reshape", "aten::flatten", "aten::reshape_as"})
# Annotated as views, but they copy where the elements do not lie in memory in order.
_IN_ORDER_OR_COPY = frozenset({"aten::contiguous", "aten::ravel"})
# Annotated as views, but they copy when dtype, device or memory format differ.
_CAST_OR_SAME = frozenset({"aten::to", "aten::type_as", "aten::float", "aten::_to_copy"})
# Not annotated, and still views of their first argument, or it itself.
_NOT_ANNOTATED = frozenset(
    {
        *("aten::type_as", "aten::atleast_1d", "aten::atleast_2d", "aten::atleast_3d", "aten::sum_to_size"),
        *("aten::unsafe_chunk", "aten::unsafe_split", "aten::unsafe_split_with_sizes", "aten::conj_physical"),
    }
)
_Numbers: TypeAlias = tuple[tuple[int, ...], ...]
"""Sizes and strides of a tensor, and the sizes that it is to have."""
_LOOKED_AT = _RESHAPES | _IN_ORDER_OR_COPY | _CAST_OR_SAME | {"aten::sum_to_size", "aten::conj_physical"}


def alias_base(node: Node, reader: NodeReader | None = None, *, perhaps: bool = False) -> Node | None:
    """Return the node whose memory this node's output is in, ``None`` where it has memory of its own.

    One step only: the base may be a view itself.  An op whose schema lies (a custom op) is believed.

    Args:
        node: The node.
        reader: Remembers the order of tensors in memory.
        perhaps: Whether a reshape counts, too, that is a view at some sizes and copies at others: of one row
            everything is a view.
    """
    if node.op != "call_function":
        return None
    op = operator_of(node)
    if op is None:
        source = node.args[0] if classify(node) is NodeKind.ELEMENT else None
        return source if isinstance(source, Node) else None
    shared = shared_argument(op)
    if shared is None and schema_name(op) in _NOT_ANNOTATED:
        shared = next(iter(arguments_of(op).values()))
    if shared is None:
        if not _may_hand_on(op):
            return None
        # Dropout that drops nothing returns its input, whatever the schema says.
        return node.all_input_nodes[0] if classify(node) is NodeKind.NO_OP and node.all_input_nodes else None
    value = given_to(node, shared)
    base = value if isinstance(value, Node) else None
    return base if base is None or _shares(node, base, reader or NodeReader(), perhaps=perhaps) else None


@lru_cache(maxsize=4096)
def _may_hand_on(op: OpOverload) -> bool:
    """Whether a call of an operator may hand its input on though its schema has an output of its own."""
    return kind_of_target(op) in (None, NodeKind.NO_OP)


def _shares(node: Node, base: Node, reader: NodeReader, *, perhaps: bool) -> bool:
    op = operator_of(node)
    name = "" if op is None else schema_name(op)
    if name not in _LOOKED_AT:
        return True
    before, after = base.meta.get("val"), node.meta.get("val")
    if not isinstance(before, torch.Tensor) or not isinstance(after, torch.Tensor):
        return False
    asked = {} if op is None else {each: given_to(node, said) for each, said in arguments_of(op).items()}
    if name in _CAST_OR_SAME:
        kept = before.dtype == after.dtype and before.device == after.device and not asked.get("copy")
        return kept and _in_same_order(before, after, perhaps=perhaps)
    if asked.get("memory_format") not in (None, torch.contiguous_format):
        return _in_same_order(before, after, perhaps=perhaps)
    if name == "aten::conj_physical":
        return not before.is_complex()
    if name == "aten::sum_to_size":
        return before.shape == after.shape and before.dim() > 0
    return reader.row_major(base) or _is_view(before, None if name in _IN_ORDER_OR_COPY else after, perhaps=perhaps)


def _in_same_order(before: torch.Tensor, after: torch.Tensor, *, perhaps: bool) -> bool:
    """Whether elements lie in memory alike; with ``perhaps`` also where they may, at some sizes."""
    strides = [[each if isinstance(each, int) else each.node.expr for each in one.stride()] for one in (before, after)]
    return strides[0] == strides[1] or (perhaps and not all(isinstance(size, int) for size in before.shape))


def _is_view(before: torch.Tensor, after: torch.Tensor | None, *, perhaps: bool) -> bool:
    """Whether a reshape of a tensor with gaps, or in another order, can still be a view of it, as torch asks it.

    A view at sizes of 2 or more is one at all: torch.export makes guards of sizes that must be equal for it, and sizes
    of 1 only make more of a view.

    Args:
        before: The tensor.
        after: The result; ``None`` for an op that copies unless the elements lie in order.
        perhaps: Whether to say so, too, where only smaller sizes make it a view, or that is not known.
    """
    lists = before.shape, before.stride(), before.shape if after is None else after.shape
    usual = _views(_in_example(lists) or _numbers(lists, (5, 7, 11, 13, 17, 19, 23)), in_order=after is None)
    if usual or not perhaps:
        return bool(usual)
    return _views(_numbers(lists, (1,)), in_order=after is None) is not False


@lru_cache(maxsize=4096)  # layers of a network ask the same
def _views(numbers: _Numbers | None, *, in_order: bool) -> bool | None:
    """Whether a tensor of some sizes and strides has a view of other sizes; ``None`` where the numbers do not fit."""
    if numbers is None or math.prod(numbers[0]) != math.prod(numbers[2]):
        return None
    held = torch.empty_strided(numbers[0], numbers[1], device="meta")
    if in_order:
        return held.is_contiguous()
    try:
        held.view(numbers[2])
    except RuntimeError:
        return False
    return True


def _in_example(lists: Sequence[Sequence[int | torch.SymInt]]) -> _Numbers | None:
    """Sizes of the example; ``None`` where one is not known, or is dynamic and 0 or 1."""
    numbers = tuple(tuple(size if isinstance(size, int) else size.node.hint for size in sizes) for sizes in lists)
    for found, sizes in zip(numbers, lists, strict=True):
        dynamic = [number for number, size in zip(found, sizes, strict=True) if not isinstance(size, int)]
        if any(number is None or number < 2 for number in dynamic):
            return None
    return numbers


def _numbers(lists: Sequence[Sequence[int | torch.SymInt]], values: Sequence[int]) -> _Numbers | None:
    """Sizes where the symbols, by name, have the values in turn; ``None`` where one is no natural number then."""
    exprs = [[size if isinstance(size, int) else size.node.expr for size in sizes] for sizes in lists]
    symbols = {symbol for expr in chain(*exprs) if not isinstance(expr, int) for symbol in expr.free_symbols}
    given = dict(zip(sorted(symbols, key=str), cycle(values)))
    try:
        found = [[expr if isinstance(expr, int) else expr.xreplace(given) for expr in each] for each in exprs]
    except ZeroDivisionError:  # by a size that is 0 then, as n // 64 of 1
        return None
    if not all(isinstance(number, int) or (number.is_Integer and number >= 0) for number in chain(*found)):
        return None
    return tuple(tuple(int(number) for number in each) for each in found)


def alias_roots(graph: Graph, reader: NodeReader | None = None, *, perhaps: bool = False) -> dict[Node, Node]:
    """Return, for each node of one graph, the node whose memory it is in at the end of the chain of views.

    Args:
        graph: The graph.
        reader: Remembers the order of tensors in memory.
        perhaps: As in ``alias_base``.
    """
    reader = reader or NodeReader()
    return roots_of({node: alias_base(node, reader, perhaps=perhaps) for node in graph.nodes})


def roots_of(bases: Mapping[Node, Node | None]) -> dict[Node, Node]:
    """The node at the end of each node's chain of views; ``bases`` has the one before it, in the order of the graph."""
    roots: dict[Node, Node] = {}
    for node, base in bases.items():
        roots[node] = node if base is None else roots.get(base, base)
    return roots


def written_nodes(graph: Graph) -> set[Node]:
    """Nodes that share memory with something that an op of the graph still changes in place, or do at some sizes."""
    if not any(writes(node) for node in graph.nodes):
        return set()
    roots = alias_roots(graph, perhaps=True)
    changed = {roots[given] for node in graph.nodes for given in writes(node)}
    return {node for node, root in roots.items() if root in changed}
