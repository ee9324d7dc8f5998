"""Sizes that kernels of torch take on trust, of ops that torch.export leaves in graphs of models.

Each was seen to read beyond its tensors on the CPU with torch 2.13, where the sizes do not fit each other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

_NORMALIZED = frozenset(
    f"aten::{name}"
    for name in (
        "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
        "_native_batch_norm_legit_no_training", "_batch_norm_no_update", "_batch_norm_with_update",
        "_batch_norm_with_update_functional", "cudnn_batch_norm", "miopen_batch_norm", "batch_norm_elemt",
    )
)  # fmt: skip
_OF_CHANNELS = ("weight", "bias", "running_mean", "running_var", "mean", "invstd")
# Whose dim is one of a tensor with more dims than theirs.
_OTHER_RANK = re.compile("unsqueeze|stack|embed|backward|batch_dim|expand")
_ATTENTION = frozenset(
    f"aten::_scaled_dot_product_{name}"
    for name in ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")
)


def reach_of_sizes(schema_name: str, given: Mapping[str, Any]) -> str:
    """Why a call reads beyond its tensors at the sizes of the example; empty where it does not.

    Args:
        schema_name: The op, ``aten::native_batch_norm``.
        given: Its arguments by name.
    """
    if schema_name in _NORMALIZED:
        shape = _shape(given.get("input"))
        if shape is None or len(shape) < 2:
            return ""
        for name in _OF_CHANNELS:
            own = _shape(given.get(name))
            if own is not None and own != shape[1:2]:
                return f"its {name} has the sizes {_said(own)}, and its input {shape[1]} channels"
    elif schema_name in _ATTENTION:
        key, value = _shape(given.get("key")), _shape(given.get("value"))
        if key is not None and value is not None and key[:-1] != value[:-1]:
            return f"its keys have the sizes {_said(key)}, and its values {_said(value)}"
    return ""


def dim_fault(schema_name: str, given: Mapping[str, Any]) -> str:
    """Which dim a call names that its tensor does not have; empty where there is none.

    Args:
        schema_name: The op, ``aten::sum``.
        given: Its arguments by name.
    """
    shape = _shape(given.get("self", given.get("input")))
    dims = given.get("dim")
    if shape is None or not schema_name.startswith("aten::") or _OTHER_RANK.search(schema_name):
        return ""
    rank = max(1, len(shape))  # a number has a dim in all but its sizes
    for dim in dims if isinstance(dims, (list, tuple)) else (dims,):
        if isinstance(dim, int) and not -rank <= dim < rank:
            return f"it names the dim {dim} of a tensor that has {len(shape)}"
    return ""


def _shape(value: Any) -> tuple[int, ...] | None:
    """A tensor's sizes at the example; ``None`` where it is none, or they are not known."""
    said = value.meta.get("val") if isinstance(value, Node) else None
    if not isinstance(said, torch.Tensor):
        return None
    sizes = [size if isinstance(size, int) else size.node.hint for size in said.shape]
    return tuple(int(size) for size in sizes) if all(isinstance(size, int) for size in sizes) else None


def _said(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes)) or "of a number"
