"""Ops that give a tensor another form in place (``transpose_``): they write no memory, so a view does the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from trtdiag.graph.aliases import alias_base
from trtdiag.graph.operators import ATEN, arguments_of, given_to, operator_of, schema_name, writes
from trtdiag.graph.values import is_row_major
from trtdiag.lower.draft import insert_call
from trtdiag.lower.functional_variants import arguments_with_types
from trtdiag.lower.template import written_size

RESIZES = frozenset({"aten::resize_", "prims::resize"})
"""They give a tensor other sizes in place: views of its memory, or more of it."""


def use_views(graph: Graph) -> int:
    """Replace them by views, which everything after reads in the tensor's place; the number of them.

    One on an input or constant stays: the caller of the program would see the new form.
    """
    objects: dict[Node, Node] = {}  # an in-place op returns the tensor itself: both nodes are one object
    now: dict[Node, Node] = {}  # what stands for an object from here on
    count = 0
    for node in list(graph.nodes):
        if now:
            node.args, node.kwargs = torch.fx.map_arg(
                (node.args, node.kwargs), lambda given: now.get(objects.get(given, given), given)
            )
        given = writes(node)
        if len(given) != 1 or given[0] is not node.args[0]:
            continue
        held = objects.get(given[0], given[0])
        objects[node] = held
        view = changes_form(node)
        if held.op != "call_function":
            continue
        with graph.inserting_before(node):
            if view is not None:
                made = insert_call(graph, view, node.args, node.meta.get("val"), node, "view", node.kwargs)
            else:
                resized = _resized(graph, node, objects)
                if resized is None:
                    continue
                made = resized
        objects[made] = held
        now[held] = made
        node.replace_all_uses_with(made)
        graph.erase_node(node)
        count += 1
    return count


def changes_form(node: Node) -> OpOverload | None:
    """The view that an op makes of its own argument in place, ``None`` for any other op."""
    op = operator_of(node)
    if op is None or torch.Tag.inplace_view not in op.tags:
        return None
    namespace, _, name = schema_name(op).partition("::")
    packet = getattr(getattr(torch.ops, namespace), name.removesuffix("_"), None) if name.endswith("_") else None
    for overload in () if packet is None else packet.overloads():
        view: OpOverload = getattr(packet, overload)
        # ``transpose_`` has one overload without a name, and what does the same is ``transpose.int``.
        same = arguments_with_types(view) == arguments_with_types(op) and not view._schema.is_mutable
        # Resizing and the like are tagged alike, but their functional forms make memory of their own.
        if same and any(returned.alias_info is not None for returned in view._schema.returns):
            return view
    return None


def _resized(graph: Graph, node: Node, objects: Mapping[Node, Node]) -> Node | None:
    """What ``resize_`` makes of a tensor: its first elements in memory under other sizes, 0 behind them where it grows.

    What stands there is not defined.  ``None`` for any other op, and where memory order or sizes are not known.

    Args:
        graph: The graph.
        node: The op, which reads the tensor as it is so far.
        objects: The tensor that in-place ops before it return.
    """
    op = operator_of(node)
    if op is None or schema_name(op) not in RESIZES:
        return None
    source, sizes = node.args[0], node.args[1]
    order = arguments_of(op).get("memory_format")
    assert isinstance(source, Node)
    before, after = source.meta.get("val"), node.meta.get("val")
    if not isinstance(before, torch.Tensor) or not isinstance(after, torch.Tensor) or not is_row_major(before):
        return None
    if order is not None and given_to(node, order) not in (None, torch.contiguous_format, torch.preserve_format):
        return None
    had, wanted = written_size(before.numel()), written_size(after.numel())
    flat = source
    if had != wanted:
        if not (isinstance(had, int) and isinstance(wanted, int)):
            return None
        if wanted > had and (alias_base(source, perhaps=True) is not None or _has_views(graph, source, node, objects)):
            return None  # what is written behind it would be seen there
        flat = _called(graph, node, ATEN.reshape.default, (source, [-1]), "flat")
        if wanted < had:
            flat = _called(graph, node, ATEN.slice.Tensor, (flat, 0, 0, wanted), "part")
        else:
            kwargs = {"dtype": before.dtype, "device": before.device}
            rest = _called(graph, node, ATEN.full.default, ([wanted - had], 0), "rest", kwargs)
            flat = _called(graph, node, ATEN.cat.default, ([flat, rest],), "grown")
    return insert_call(graph, ATEN.reshape.default, (flat, sizes), after, node, "resized")


def _has_views(graph: Graph, tensor: Node, before: Node, objects: Mapping[Node, Node]) -> bool:
    for one in graph.nodes:
        if one is before:
            return False
        base = alias_base(one, perhaps=True)
        if base is not None and objects.get(base, base) is tensor and objects.get(one) is not tensor:
            return True
    return False


def _called(
    graph: Graph, node: Node, target: OpOverload, args: tuple[Any, ...], name: str, kwargs: dict[str, Any] | None = None
) -> Node:
    """A call in the place of ``node`` with the value that torch gives it."""
    mode = node.meta["val"].fake_mode
    vals = torch.fx.map_arg(args, lambda one: one.meta["val"])
    with torch.no_grad(), mode:
        val = target(*vals, **(kwargs or {}))
    return insert_call(graph, target, args, val, node, name, kwargs or {})
