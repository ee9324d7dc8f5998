"""Writing a view's new value back into the tensor that it views, without changing anything in place."""

from __future__ import annotations

from typing import Any

from torch.fx import Graph, Node

from trtdiag.graph.operators import ATEN, operator_of, short_name
from trtdiag.lower.draft import insert_call

# Views whose memory is all of the base's in the same order: a reshape leads back.
_REORDER_NOTHING = frozenset(
    {"view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze", "contiguous", "view_as", "_unsafe_view"}
)
# A cast is a view only where it changes nothing.
_SAME = frozenset({"alias", "detach", "lift_fresh", "to", "type_as"})
_PARTS = frozenset({"slice", "select", "narrow", "transpose", "permute", "t"})


def has_inverse(view: Node) -> bool:
    """Whether ``scattered`` knows the op of a view."""
    op = operator_of(view)
    if op is None or (short_name(op) == "narrow" and not all(isinstance(arg, int) for arg in view.args[1:])):
        return False  # a sum of sizes, or of a tensor, would have to be computed for the end of a slice
    return short_name(op) in _REORDER_NOTHING | _SAME | _PARTS


def scattered(graph: Graph, view: Node, base: Node, value: Node, base_val: Any) -> Node:
    """``base`` with the elements that ``view`` shows replaced by ``value``; new calls go to the insertion point.

    Args:
        graph: The graph of all of them.
        view: The view op, ``has_inverse``; only its arguments after the first are read.
        base: The base's value now.
        value: The view's new value.
        base_val: The base's ``meta["val"]``, which the result keeps.
    """
    op = operator_of(view)
    name = "" if op is None else short_name(op)
    rest, kwargs = view.args[1:], dict(view.kwargs)
    if op is None or name in _SAME:
        return value
    if name in _REORDER_NOTHING:
        sizes = sizes_of(graph, base, base_val)
        return insert_call(graph, ATEN.reshape.default, (value, sizes), base_val, view, "back")
    if name == "slice":
        target, args = ATEN.slice_scatter.default, (base, value, *rest)
    elif name == "narrow":
        dim, start, length = (int(arg) for arg in rest)  # type: ignore[arg-type]  # ``has_inverse`` asked
        end = start + length if start >= 0 or start + length < 0 else None
        target, args = ATEN.slice_scatter.default, (base, value, dim, start, end)
    elif name == "select":
        target, args = ATEN.select_scatter.default, (base, value, *rest)
    elif name == "permute":
        dims = [dim % base_val.dim() for dim in rest[0]]  # type: ignore[union-attr]  # a list of plain axes
        target, args = ATEN.permute.default, (value, [dims.index(axis) for axis in range(base_val.dim())])
    else:  # transpose and t lead back by themselves
        target, args = op, (value, *rest)
    return insert_call(graph, target, args, base_val, view, "back", kwargs)


def sizes_of(graph: Graph, node: Node, val: Any) -> list[Any]:
    """The sizes of a tensor as arguments: numbers where they are static, else ``sym_size`` calls on the node."""
    return [
        size
        if isinstance(size, int)
        else insert_call(graph, ATEN.sym_size.int, (node, axis), size, node, f"size_{axis}")
        for axis, size in enumerate(val.shape)
    ]
