"""Which inputs may be indices: their values must stay inside of what they point into."""

from __future__ import annotations

import operator

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from trtdiag.graph.node_kinds import reached
from trtdiag.graph.operators import INTEGERS, OF_SIZES, arguments_of, given_to, schema_name

_POINTING = frozenset({"index", "indices", "target", "labels", "offsets"})
"""Arguments of ATen's ops that hold places: index_select, gather, scatter, index_put, embedding, nll_loss, ..."""


def index_inputs(exported: ExportedProgram) -> frozenset[str]:
    """Placeholders of integers that may be used as indices: a path of integers leads from them to one.

    A mask mostly does not: it is compared, or multiplied with floats.  Where it cannot be told the input counts: what
    goes into an op that is none of ATen's, or becomes a size.
    """
    given = set(exported.graph_signature.user_inputs)
    starts = [node for node in exported.graph.nodes if node.op == "placeholder" and node.name in given]
    return frozenset(node.name for node in starts if _is_integer(node) and _may_point(node))


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
