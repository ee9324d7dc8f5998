"""Scatters whose index says the same for all elements of a row become ops over rows."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from trtdiag.graph.operators import ATEN, operator_of, short_name
from trtdiag.lower.draft import Draft, insert_call
from trtdiag.lower.passes.copies import reshaped_from
from trtdiag.lower.template import written_size

_EXPANDS = frozenset({"expand", "expand_as", "broadcast_to"})


def scatter_rows(draft: Draft) -> int:
    """``scatter_add`` of an index that one tensor for all rows was expanded to becomes ``index_add``.

    So do reductions of ``scatter_reduce``.  An engine then looks once at each row, not at each of its elements.
    """
    count = 0
    for node in list(draft.graph.nodes):
        if node.target in (ATEN.scatter_add.default, ATEN.scatter_reduce.two):
            count += _replace(draft, node)
    return count


def _replace(draft: Draft, node: Node) -> bool:
    x, dim, index, source = node.args[:4]
    assert isinstance(x, Node)
    assert isinstance(dim, int)
    shapes = [one.meta["val"].shape for one in (x, index, source)]  # type: ignore[union-attr]  # tensors
    rank = len(shapes[0])
    rows = _of_rows(index, dim % rank if rank else 0)
    if rows is None:
        return False
    there, own, given = ([written_size(size) for size in shape] for shape in shapes)
    if own != given or any(there[axis] != own[axis] for axis in range(rank) if axis != dim % rank):
        return False
    reduce = node.args[4] if node.target is ATEN.scatter_reduce.two else "sum"
    include_self = node.kwargs.get("include_self", True)
    target: Any = ATEN.index_reduce.default
    args: tuple[Any, ...] = (reduce,)
    kwargs = {"include_self": include_self}
    if reduce == "sum":
        if not include_self:
            return False
        target, args, kwargs = ATEN.index_add.default, (), {}
    with draft.graph.inserting_before(node):
        with draft.mode:
            val = rows.meta["val"].reshape([-1])
        places = reshaped_from(rows, val) or insert_call(
            draft.graph, ATEN.reshape.default, (rows, [-1]), val, node, "rows"
        )
        made = insert_call(
            draft.graph, target, (x, dim, places, source, *args), node.meta["val"], node, "of_rows", kwargs
        )
    node.replace_all_uses_with(made)
    draft.graph.erase_node(node)
    return True


def _of_rows(index: Any, dim: int) -> Node | None:
    """The tensor that an index was expanded from along all dims but one; ``None`` where it was not."""
    op = operator_of(index) if isinstance(index, Node) else None
    if op is None or short_name(op) not in _EXPANDS:
        return None
    source = index.args[0]
    if not isinstance(source, Node):
        return None
    before, after = source.meta["val"], index.meta["val"]
    if not isinstance(before, torch.Tensor) or before.dim() != after.dim() or before.dim() < 2:
        return None
    sizes = [written_size(size) for size in before.shape]
    alike = sizes[dim] == written_size(after.shape[dim])
    return source if alike and all(size == 1 for axis, size in enumerate(sizes) if axis != dim) else None
