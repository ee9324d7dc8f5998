"""Frees the graph of the order in memory: ``view`` fails on other strides than the program had, ``reshape`` never."""

from __future__ import annotations

from torch.fx import Node

from trtdiag.graph.aliases import written_nodes
from trtdiag.graph.operators import ATEN, operator_of, schema_name
from trtdiag.lower.draft import Draft

_VIEWS = (ATEN.view.default, ATEN._unsafe_view.default)
_READS_ORDER = frozenset({"aten::as_strided", "aten::view_as_complex"})


def forget_memory_order(draft: Draft) -> int:
    """Turn views into reshapes; ops that read strides get a limit."""
    locked = written_nodes(draft.graph)
    count = 0
    for node in draft.graph.nodes:
        op = operator_of(node)
        if op is not None and schema_name(op) in _READS_ORDER and not _reads_new_memory(node):
            draft.limit(node, "it reads the order of its input in memory, which lowering does not preserve")
        if node.target in _VIEWS and node not in locked:
            node.target = ATEN.reshape.default
            count += 1
    return count


def _reads_new_memory(node: Node) -> bool:
    """Whether an op reads what ``stack`` has just written, in order whatever it was made of."""
    source = node.all_input_nodes[0]
    return source.target is ATEN.stack.default and node.args[0] is source
