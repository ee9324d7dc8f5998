"""Counts axes from the front: no converter then has to know the other way."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from trtdiag.graph.operators import OpArgument, arguments_of, given_to, operator_of, schema_name
from trtdiag.lower.draft import Draft

_AXES = frozenset({"dim", "dims", "dim0", "dim1", "axis", "axis0", "axis1", "start_dim", "end_dim"})
# The axis counts in the result, which has one more.
_IN_RESULT = frozenset({"aten::unsqueeze", "aten::stack"})
# Ops whose argument of that name is no axis of their first input.
_NOT_AXES = frozenset({"aten::sym_size", "aten::sym_stride", "aten::arange", "aten::unflatten"})


def count_from_the_front(draft: Draft) -> int:
    """Make negative axes of every op non-negative."""
    count = 0
    for node in draft.graph.nodes:
        op = operator_of(node)
        if op is None or schema_name(op) in _NOT_AXES or not schema_name(op).startswith("aten::"):
            continue
        rank = _rank(node)
        if rank is None:
            continue
        rank += schema_name(op) in _IN_RESULT
        axes = (argument for argument in arguments_of(op).values() if argument.name in _AXES)
        changed = [_change(node, argument, rank) for argument in axes]
        count += any(changed)
    return count


def _rank(node: Node) -> int | None:
    source = node.all_input_nodes[0].meta.get("val") if node.all_input_nodes else None
    return source.dim() if isinstance(source, torch.Tensor) else None


def _change(node: Node, argument: OpArgument, rank: int) -> bool:
    """Count what an argument names from the front; whether that changed it."""

    def positive(axis: Any) -> Any:
        return axis + rank if isinstance(axis, int) and axis < 0 else axis

    given = given_to(node, argument)
    wanted = [positive(axis) for axis in given] if isinstance(given, (list, tuple)) else positive(given)
    if wanted == (list(given) if isinstance(given, (list, tuple)) else given):
        return False
    if argument.position < len(node.args):
        node.update_arg(argument.position, wanted)
    else:
        node.update_kwarg(argument.name, wanted)
    return True
