"""Which inputs may be indices: their values must stay inside of what they point into."""

from __future__ import annotations

import operator

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from trtdiag.graph.node_kinds import reached
from trtdiag.graph.operators import INTEGERS, OF_SIZES, arguments_of, given_to, named_arguments, schema_name, short_name

_POINTING = frozenset({"index", "indices", "target", "labels", "offsets"})
"""Arguments of ATen's ops that hold places: index_select, gather, scatter, index_put, embedding, nll_loss, ..."""
_KEEPING = frozenset(
    {"clone", "contiguous", "repeat", "cat", "stack", "_to_copy", "to", "lift_fresh_copy", "flip", "roll"}
)
"""Ops that give the values that they are given, as views do."""
_WIDE = 4
"""Bytes of an integer that holds every place of a table."""
_BY_DIM = frozenset({"gather", "index_select", "scatter", "scatter_add", "index_add", "index_copy", "scatter_reduce"})
"""Ops with the arguments table, dim, index."""
_BY_POSITION = frozenset({"index", "index_put"})


def index_inputs(exported: ExportedProgram) -> frozenset[str]:
    """Placeholders of integers that may be used as indices: a path of integers leads from them to one.

    A mask mostly does not: it is compared, or multiplied with floats.  Where it cannot be told the input counts: what
    goes into an op that is none of ATen's, or becomes a size.
    """
    given = set(exported.graph_signature.user_inputs)
    starts = [node for node in exported.graph.nodes if node.op == "placeholder" and node.name in given]
    return frozenset(node.name for node in starts if _is_integer(node) and _may_point(node))


def index_bounds(exported: ExportedProgram) -> dict[str, int]:
    """What the values of integer inputs must stay below, by placeholder: the least size of what they point into.

    Only of inputs whose values reach every index as they are, and where all that they point into has fixed sizes there.
    """
    given, found = set(exported.graph_signature.user_inputs), {}
    for node in exported.graph.nodes:
        if node.op != "placeholder" or node.name not in given or not _is_integer(node):
            continue
        sizes = _sizes_pointed_into(node)
        if sizes and None not in sizes:
            found[node.name] = min(size for size in sizes if size is not None)
    return found


def ends_of_offsets(exported: ExportedProgram) -> dict[str, str]:
    """Placeholders of offsets of bags the last of which is the number of indices, with the placeholder of these."""
    found = {}
    for node in exported.graph.nodes:
        if isinstance(node.target, OpOverload) and "embedding_bag" in short_name(node.target):
            given = named_arguments(node, node.target)
            if given["include_last_offset"]:
                found[given["offsets"].name] = given["indices"].name
    return found


def _sizes_pointed_into(start: Node) -> list[int | None]:
    """Of each use of an input as places the size there; ``None`` for one that is not known."""
    same = set(reached([start], lambda value: filter(_keeps_values, _read_by(value))))
    values = reached([start], lambda value: filter(_is_integer, _read_by(value)))
    return [
        _size_at(user, value) if value in same else None
        for value in values
        for user in _read_by(value)
        if _points_with(user, value)
    ]


def _keeps_values(node: Node) -> bool:
    op = node.target
    if not isinstance(op, OpOverload) or op is torch.ops.aten.view.dtype or not _is_integer(node):
        return False
    wide = node.meta["val"].dtype.itemsize >= _WIDE if isinstance(node.meta["val"], torch.Tensor) else False
    return wide and (op.is_view or short_name(op) in _KEEPING)


def _size_at(user: Node, index: Node) -> int | None:
    """The size of the dim that an op looks up with an index; ``None`` where it is not known or not fixed."""
    op, args = user.target, user.args
    if not isinstance(op, OpOverload):  # a condition or loop, or what is none of ATen's
        return None
    name, table = short_name(op), args[0] if args else None
    shape = table.meta["val"].shape if isinstance(table, Node) and hasattr(table.meta.get("val"), "shape") else None
    dim: object = None
    if name in ("embedding", "_embedding_bag", "embedding_bag") and args[1] is index:
        dim = 0
    elif name in _BY_DIM and len(args) > 2 and args[2] is index:
        dim = args[1]
    elif name in _BY_POSITION and isinstance(args[1], (list, tuple)) and args[1].count(index) == 1:
        before = args[1][: args[1].index(index)]
        plain = all(each is None or (isinstance(each, Node) and _is_integer(each)) for each in before)
        dim = len(before) if plain else None  # a mask has several
    if shape is None or not isinstance(dim, int) or not -len(shape) <= dim < len(shape):
        return None
    return shape[dim] if isinstance(shape[dim], int) else None


def _may_point(start: Node) -> bool:
    values = reached([start], lambda value: filter(_is_integer, _read_by(value)))
    return any(_points_with(user, value) for value in values for user in _read_by(value))


def _read_by(value: Node) -> list[Node]:
    return [user for user in value.users if user.op != "output"]


def _points_with(user: Node, value: Node) -> bool:
    """Whether the call uses the value as places, or cannot be looked into."""
    op = user.target
    if not isinstance(op, OpOverload):
        return op is not operator.getitem
    if schema_name(op) in OF_SIZES or user.meta.get("val") is None:  # the second is an assertion
        return False
    if not isinstance(user.meta["val"], (torch.Tensor, list, tuple)):
        return True  # a size, or a condition on one
    return any(
        argument.name in _POINTING and value in _nodes_in(given_to(user, argument))
        for argument in arguments_of(op).values()
    )


def _nodes_in(given: object) -> list[object]:
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _is_integer(node: Node) -> bool:
    """Whether it gives integers, or several tensors of which one may."""
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else [value]
    return any(isinstance(each, torch.Tensor) and each.dtype in INTEGERS for each in values)
