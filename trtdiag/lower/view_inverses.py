"""Writing a view's new value back into the tensor that it views, without changing anything in place."""

from __future__ import annotations

import operator
import sys
from typing import Any

from torch.fx import Graph, Node

from trtdiag.graph.operators import ATEN, named_arguments, operator_of, short_name
from trtdiag.lower.draft import insert_call

# Views whose memory is all of the base's in the same order: a reshape leads back.
REORDER_NOTHING = frozenset(
    {
        *("view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze", "contiguous", "view_as", "_unsafe_view"),
        *("reshape_as", "ravel", "atleast_1d", "atleast_2d", "atleast_3d"),
    }
)
# A cast is a view only where it changes nothing.
_SAME = frozenset({"alias", "detach", "lift_fresh", "to", "type_as", "sum_to_size", "conj_physical"})
_PARTS = frozenset({"slice", "select", "narrow", "transpose", "permute", "t"})
# Lists of views that lie one after the other along a dim.
_PIECES = frozenset(
    {"split", "split_with_sizes", "chunk", "tensor_split", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk"}
)


def has_inverse(view: Node) -> bool:
    """Whether ``scattered`` knows the op of a view."""
    op = operator_of(view)
    if op is None or (short_name(op) == "narrow" and not all(isinstance(arg, int) for arg in view.args[1:])):
        return False  # a sum of sizes, or of a tensor, would have to be computed for the end of a slice
    return short_name(op) in REORDER_NOTHING | _SAME | _PARTS


def list_of_views(node: Node) -> Node | None:
    """The op whose list of views of one tensor a getitem node picks from; ``None`` for any other node."""
    source = node.args[0] if node.target is operator.getitem else None
    op = operator_of(source) if isinstance(source, Node) else None
    return source if op is not None and short_name(op) in _PIECES | {"unbind"} else None  # type: ignore[return-value]


def element_has_inverse(element: Node, pieces: Node) -> bool:
    """Whether ``element_scattered`` knows where an element of a list of views begins."""
    op = operator_of(pieces)
    assert op is not None
    return short_name(op) == "unbind" or _begins(element, pieces) is not None


def element_scattered(graph: Graph, element: Node, pieces: Node, base: Node, value: Node, base_val: Any) -> Node:
    """As ``scattered``, for an element of the list of views that the op ``pieces`` makes of ``base``."""
    op, index = operator_of(pieces), element.args[1]
    assert op is not None
    dim = named_arguments(pieces, op)["dim"]
    if short_name(op) == "unbind":
        return insert_call(graph, ATEN.select_scatter.default, (base, value, dim, index), base_val, element, "back")
    start = _begins(element, pieces)
    assert start is not None
    size = element.meta["val"].shape[dim]
    end = start + size if isinstance(size, int) else sys.maxsize  # it is the last one, as ``_begins`` saw
    return insert_call(graph, ATEN.slice_scatter.default, (base, value, dim, start, end), base_val, element, "back")


def _begins(element: Node, pieces: Node) -> int | None:
    """Where an element begins along the dim; ``None`` where it or what stands before it is of a dynamic size.

    The last one may be of any size.
    """
    op, vals, index = operator_of(pieces), pieces.meta["val"], element.args[1]
    assert op is not None
    assert isinstance(index, int)
    dim = named_arguments(pieces, op).get("dim")
    if not isinstance(dim, int):
        return None
    index %= len(vals)
    sizes = [val.shape[dim] for val in vals[: index + (index < len(vals) - 1)]]
    return sum(sizes[:index]) if all(isinstance(size, int) for size in sizes) else None


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
    if name in REORDER_NOTHING:
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
