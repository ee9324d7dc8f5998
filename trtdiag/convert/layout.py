"""Where a tensor's elements lie in memory, for the few ops whose result depends on it."""

from __future__ import annotations

import torch
from torch.fx import Node

from trtdiag.graph.operators import target_name
from trtdiag.graph.values import is_row_major

_READS = frozenset({"aten.as_strided.default", "aten.as_strided_copy.default"})


def reads_layout(node: Node) -> bool:
    """Whether an op's result depends on how its argument lies in memory."""
    return target_name(node.target) in _READS


def lies_in_order(node: Node) -> bool:
    """Whether a tensor lies in memory in the order of its dims, without gaps, from the start of its memory."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return False
    offset = value.storage_offset()
    return isinstance(offset, int) and offset == 0 and is_row_major(value)
