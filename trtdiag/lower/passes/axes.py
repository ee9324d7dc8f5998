"""Counts axes from the front: no converter then has to know the other way."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from trtdiag.graph.operators import arguments_of, operator_of, schema_name
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
        changed = False
        rank = _rank(node)
        if rank is None:
            continue
        rank += schema_name(op) in _IN_RESULT
        for argument in arguments_of(op).values():
            if argument.name in _AXES:
                changed |= _change(node, argument.position, argument.name, lambda axis, rank=rank: axis + rank)
        count += changed
    return count


def _rank(node: Node) -> int | None:
    source = node.all_input_nodes[0].meta.get("val") if node.all_input_nodes else None
    return source.dim() if isinstance(source, torch.Tensor) else None


def _change(node: Node, position: int, name: str, positive: Any) -> bool:
    given = node.args[position] if position < len(node.args) else node.kwargs.get(name)
    wanted: Any = given
    if isinstance(given, int) and not isinstance(given, bool) and given < 0:
        wanted = positive(given)
    elif isinstance(given, (list, tuple)) and any(isinstance(axis, int) and axis < 0 for axis in given):
        wanted = [positive(axis) if isinstance(axis, int) and axis < 0 else axis for axis in given]
    if wanted is given:
        return False
    if position < len(node.args):
        node.update_arg(position, wanted)
    else:
        node.update_kwarg(name, wanted)
    return True
