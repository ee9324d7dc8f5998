"""Which node's memory a node's output lives in: views and in-place ops, by their schemas' alias annotations."""

from __future__ import annotations

import torch
from torch.fx import Graph, Node

from trtdiag.graph.operators import operator_of, schema_name, shared_argument
from trtdiag.graph.values import is_row_major
from trtdiag.graph.walk import NodeKind, classify

# Annotated as views, but they copy when the memory order does not allow one.
_VIEW_OR_COPY = frozenset(
    {"aten::reshape", "aten::contiguous", "aten::flatten", "aten::reshape_as", "aten::unflatten", "aten::ravel"}
)
# Annotated as views, but they copy when dtype, device or memory format differ.
_CAST_OR_SAME = frozenset({"aten::to", "aten::type_as", "aten::float", "aten::_to_copy"})


def alias_base(node: Node) -> Node | None:
    """Return the node whose memory this node's output is in, ``None`` where it has memory of its own.

    One step only: the base may be a view itself.  An op whose schema lies (a custom op) is believed.
    """
    if node.op != "call_function":
        return None
    op = operator_of(node)
    if op is None:
        source = node.args[0] if classify(node) is NodeKind.ELEMENT else None
        return source if isinstance(source, Node) else None
    shared = shared_argument(op)
    if shared is None:
        # Dropout that drops nothing returns its input, whatever the schema says.
        return node.all_input_nodes[0] if classify(node) is NodeKind.NO_OP and node.all_input_nodes else None
    value = node.args[shared.position] if shared.position < len(node.args) else node.kwargs.get(shared.name)
    base = value if isinstance(value, Node) else None
    return base if base is None or _shares(node, base) else None


def _shares(node: Node, base: Node) -> bool:
    op = operator_of(node)
    name = "" if op is None else schema_name(op)
    if name not in _VIEW_OR_COPY and name not in _CAST_OR_SAME:
        return True
    before, after = base.meta.get("val"), node.meta.get("val")
    if not isinstance(before, torch.Tensor) or not isinstance(after, torch.Tensor):
        return False
    if name in _CAST_OR_SAME:
        return before.dtype == after.dtype and is_row_major(before) == is_row_major(after)
    return is_row_major(before)


def alias_roots(graph: Graph) -> dict[Node, Node]:
    """Return, for each node of one graph, the node whose memory it is in at the end of the chain of views."""
    roots: dict[Node, Node] = {}
    for node in graph.nodes:
        base = alias_base(node)
        roots[node] = node if base is None else roots.get(base, base)
    return roots
