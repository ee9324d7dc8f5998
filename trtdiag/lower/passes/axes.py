"""Counts axes from the front: no converter then has to know the other way."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from trtdiag.graph.operators import OpArgument, arguments_of, given_to, operator_of, schema_name
from trtdiag.lower.draft import Draft

_AXES = frozenset({"dim", "dims", "dim0", "dim1", "axis", "axis0", "axis1", "start_dim", "end_dim"})
# The axis counts in the result, whose rank may be another one than that of the first input.
_IN_RESULT = {
    *("aten::unsqueeze", "aten::unsqueeze_copy", "aten::stack", "aten::_stack", "aten::cat", "aten::diag_embed"),
    *("aten::select_backward", "aten::slice_backward", "aten::diagonal_backward", "aten::unfold_backward"),
}
# The axis counts in what the inputs are broadcast to, and the result has no such axis.
_IN_BROADCAST = {"aten::cosine_similarity", "aten::linalg_vecdot"}
# Ops whose argument of that name is no axis of their first input, or means all of its axes where it is -1.
_NOT_AXES = {
    *("aten::sym_size", "aten::sym_stride", "aten::arange", "aten::unflatten"),
    *("aten::_weight_norm", "aten::norm_except_dim"),
}


def count_from_the_front(draft: Draft) -> int:
    """Make negative axes of every op non-negative."""
    count = 0
    for node in draft.graph.nodes:
        op = operator_of(node)
        if op is None or schema_name(op) in _NOT_AXES or not schema_name(op).startswith("aten::"):
            continue
        rank = _rank(node, schema_name(op))
        if rank is None:
            continue
        axes = (argument for argument in arguments_of(op).values() if argument.name in _AXES)
        changed = [_change(node, argument, rank) for argument in axes]
        count += any(changed)
    return count


def _rank(node: Node, name: str) -> int | None:
    """The number of dims that the axes of an op count in."""
    sources = [node] if name in _IN_RESULT else node.all_input_nodes
    values = [source.meta.get("val") for source in (sources if name in _IN_BROADCAST else sources[:1])]
    return max((value.dim() for value in values if isinstance(value, torch.Tensor)), default=None)


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
