"""Frees the graph of the order in memory: ``view`` fails on other strides than the program had, ``reshape`` never."""

from __future__ import annotations

import torch
from torch.fx import Node

from trtdiag.graph.aliases import written_nodes
from trtdiag.graph.operators import ATEN, operator_of, schema_name
from trtdiag.lower.draft import Draft, insert_call
from trtdiag.lower.template import written_size

_VIEWS = (ATEN.view.default, ATEN._unsafe_view.default)
_READS_ORDER = frozenset({"aten::as_strided", "aten::view_as_complex"})
_BY_STRIDES = "aten::as_strided"


def forget_memory_order(draft: Draft) -> int:
    """Turn views into reshapes; ops that read strides get a limit, and an input without gaps where it had none."""
    locked = written_nodes(draft.graph)
    count = 0
    for node in list(draft.graph.nodes):
        op = operator_of(node)
        if op is not None and reads_order(node) and not _reads_new_memory(node):
            if schema_name(op) in _READS_ORDER:
                draft.limit(node, "it reads the order of its input in memory, which lowering does not preserve")
            if node not in locked:
                count += _without_gaps(draft, node)
        if node.target in _VIEWS and node not in locked:
            node.target = ATEN.reshape.default
            count += 1
    return count


def reads_order(node: Node) -> bool:
    """Whether what an op gives, or whether it runs, depends on where the elements of its input lie in memory."""
    op = operator_of(node)
    if op is ATEN.view.dtype:
        before, after = node.all_input_nodes[0].meta.get("val"), node.meta.get("val")
        if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor):
            return before.element_size() != after.element_size()
    return op is not None and schema_name(op) in _READS_ORDER


def _without_gaps(draft: Draft, node: Node) -> bool:
    """Copy what ``node`` reads where lowering left it in another order, in that which it had; whether it had no gaps.

    Of dims that lie in another order in memory, what they are a ``permute`` of is copied.
    """
    source = node.args[0]
    value = source.meta.get("val") if isinstance(source, Node) else None
    if not isinstance(source, Node) or not isinstance(value, torch.Tensor):
        return False
    order, strides = list(range(value.dim())), value.stride()
    op = operator_of(node)
    if op is not None and schema_name(op) == _BY_STRIDES and all(isinstance(each, int) for each in strides):
        order.sort(key=lambda dim: -int(strides[dim]))
    with draft.mode:
        # Of a size whose range a damaged file has lost torch can give no view, and a copy it can.
        value = value if order == sorted(order) else value.permute(order)
        plain = torch.empty_like(value, memory_format=torch.contiguous_format)
    if [*map(written_size, value.stride())] != [*map(written_size, plain.stride())]:
        return False
    with draft.graph.inserting_before(node):
        read = source
        if order != sorted(order):
            read = insert_call(draft.graph, ATEN.permute.default, (source, order), value, node, "order")
        node.args = (insert_call(draft.graph, ATEN.contiguous.default, (read,), value, node, "order"), *node.args[1:])
    return True


def _reads_new_memory(node: Node) -> bool:
    """Whether an op reads what ``stack`` has just written, in order whatever it was made of."""
    source = node.all_input_nodes[0]
    return source.target is ATEN.stack.default and node.args[0] is source
