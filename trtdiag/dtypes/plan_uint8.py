"""Tensors that may stay uint8: TensorRT takes it at a network's edge alone, next to a cast from or to floats."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.fx import Node

from trtdiag.graph.operators import operator_of, short_name

CASTS = frozenset({"_to_copy", "to", "type_as", "convert_element_type"})
_FLOATS = (torch.float32, torch.float16)


def is_cast(node: Node) -> bool:
    """Whether a node only changes the dtype of its first argument."""
    op = operator_of(node)
    return op is not None and short_name(op) in CASTS


def is_uint8_at_the_edge(node: Node, held: Callable[[Node], torch.Tensor | None]) -> bool:
    """Whether a uint8 tensor enters and is cast to floats at once, or is cast from floats and leaves at once.

    Args:
        node: The node that yields it.
        held: Gives the value of a constant, ``None`` for other nodes.
    """
    if node.op == "placeholder":
        return held(node) is None and bool(node.users) and all(_is_float_cast(user, user) for user in node.users)
    leaves_at_once = bool(node.users) and all(user.op == "output" for user in node.users)
    return leaves_at_once and bool(node.all_input_nodes) and _is_float_cast(node, node.all_input_nodes[0])


def _is_float_cast(cast: Node, floats: Node) -> bool:
    value = floats.meta.get("val")
    return is_cast(cast) and isinstance(value, torch.Tensor) and value.dtype in _FLOATS
