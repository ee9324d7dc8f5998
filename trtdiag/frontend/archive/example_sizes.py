"""What a graph states of the sizes at its example, and dims that its calls name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

# Whose dim is one of a tensor with more dims than theirs.
_OTHER_RANK = re.compile("unsqueeze|stack|embed|backward|batch_dim|expand")


def dim_fault(schema_name: str, given: Mapping[str, Any]) -> str:
    """Which dim a call names that its tensor does not have; empty where there is none.

    Args:
        schema_name: The op, ``aten::sum``.
        given: Its arguments by name.
    """
    shape = stated_sizes(given.get("self", given.get("input")))
    dims = given.get("dim")
    if shape is None or not schema_name.startswith("aten::") or _OTHER_RANK.search(schema_name):
        return ""
    rank = max(1, len(shape))  # a number has a dim in all but its sizes
    for dim in dims if isinstance(dims, (list, tuple)) else (dims,):
        if isinstance(dim, int) and not -rank <= dim < rank:
            return f"it names the dim {dim} of a tensor that has {len(shape)}"
    return ""


def stated_sizes(value: Any) -> tuple[int, ...] | None:
    """A tensor's sizes at the example, as a graph states them; ``None`` where it is none, or they are not known."""
    said = value.meta.get("val") if isinstance(value, Node) else None
    if not isinstance(said, torch.Tensor):
        return None
    sizes = [size if isinstance(size, int) else size.node.hint for size in said.shape]
    return tuple(int(size) for size in sizes) if all(isinstance(size, int) for size in sizes) else None
