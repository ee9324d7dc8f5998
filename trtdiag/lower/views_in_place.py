"""Ops that give a tensor another form in place (``transpose_``): they write no memory, so a view does the same."""

from __future__ import annotations

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from trtdiag.graph.operators import operator_of, schema_name, writes
from trtdiag.lower.draft import insert_call


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
        if view is None or held.op != "call_function":
            continue
        with graph.inserting_before(node):
            made = insert_call(graph, view, node.args, node.meta.get("val"), node, "view", node.kwargs)
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
        same = _arguments(view) == _arguments(op) and not view._schema.is_mutable
        # Resizing and the like are tagged alike, but their functional forms make memory of their own.
        if same and any(returned.alias_info is not None for returned in view._schema.returns):
            return view
    return None


def _arguments(op: OpOverload) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in op._schema.arguments]
