"""Which node's memory a node's output lives in: views and in-place ops, by their schemas' alias annotations."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch.fx import Graph, Node

from trtdiag.graph.node_kinds import NodeKind, classify, kind_of_target
from trtdiag.graph.operators import OpOverload, given_to, operator_of, schema_name, shared_argument, writes
from trtdiag.graph.values import NodeReader

# Annotated as views, but they copy when the memory order does not allow one.
_VIEW_OR_COPY = frozenset(
    {"aten::reshape", "aten::contiguous", "aten::flatten", "aten::reshape_as", "aten::unflatten", "aten::ravel"}
)
# Annotated as views, but they copy when dtype, device or memory format differ.
_CAST_OR_SAME = frozenset({"aten::to", "aten::type_as", "aten::float", "aten::_to_copy"})


def alias_base(node: Node, reader: NodeReader | None = None) -> Node | None:
    """Return the node whose memory this node's output is in, ``None`` where it has memory of its own.

    One step only: the base may be a view itself.  An op whose schema lies (a custom op) is believed.

    Args:
        node: The node.
        reader: Remembers the order of tensors in memory.
    """
    if node.op != "call_function":
        return None
    op = operator_of(node)
    if op is None:
        source = node.args[0] if classify(node) is NodeKind.ELEMENT else None
        return source if isinstance(source, Node) else None
    shared = shared_argument(op)
    if shared is None:
        if not _may_hand_on(op):
            return None
        # Dropout that drops nothing returns its input, whatever the schema says.
        return node.all_input_nodes[0] if classify(node) is NodeKind.NO_OP and node.all_input_nodes else None
    value = given_to(node, shared)
    base = value if isinstance(value, Node) else None
    return base if base is None or _shares(node, base, reader or NodeReader()) else None


@lru_cache(maxsize=4096)
def _may_hand_on(op: OpOverload) -> bool:
    """Whether a call of an operator may hand its input on though its schema has an output of its own."""
    return kind_of_target(op) in (None, NodeKind.NO_OP)


def _shares(node: Node, base: Node, reader: NodeReader) -> bool:
    op = operator_of(node)
    name = "" if op is None else schema_name(op)
    if name not in _VIEW_OR_COPY and name not in _CAST_OR_SAME:
        return True
    before, after = base.meta.get("val"), node.meta.get("val")
    if not isinstance(before, torch.Tensor) or not isinstance(after, torch.Tensor):
        return False
    if name in _CAST_OR_SAME:
        return before.dtype == after.dtype and reader.row_major(base) == reader.row_major(node)
    return reader.row_major(base)


def alias_roots(graph: Graph, reader: NodeReader | None = None) -> dict[Node, Node]:
    """Return, for each node of one graph, the node whose memory it is in at the end of the chain of views.

    Args:
        graph: The graph.
        reader: Remembers the order of tensors in memory.
    """
    reader = reader or NodeReader()
    roots: dict[Node, Node] = {}
    for node in graph.nodes:
        base = alias_base(node, reader)
        roots[node] = node if base is None else roots.get(base, base)
    return roots


def written_nodes(graph: Graph) -> set[Node]:
    """Nodes that share memory with something that an op of the graph still changes in place."""
    if not any(writes(node) for node in graph.nodes):
        return set()
    roots = alias_roots(graph)
    changed = {roots[given] for node in graph.nodes for given in writes(node)}
    return {node for node, root in roots.items() if root in changed}
