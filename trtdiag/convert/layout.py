"""Where a tensor's elements lie in memory, for the few ops whose result depends on it."""

from __future__ import annotations

import torch
from torch.fx import Node

from trtdiag.graph.operators import target_name
from trtdiag.graph.values import is_row_major

_READS = frozenset({"aten.as_strided.default", "aten.as_strided_copy.default"})


def reads_in_order(node: Node) -> bool:
    """Whether an op's result depends on how its tensor lies in memory, and that is in the order of its dims.

    There are no gaps then, and the tensor begins where its memory does.
    """
    if target_name(node.target) not in _READS:
        return False
    value = node.all_input_nodes[0].meta.get("val")
    if not isinstance(value, torch.Tensor):
        return False
    offset = value.storage_offset()
    return isinstance(offset, int) and offset == 0 and is_row_major(value)
