"""Brings a binary op with a number to the overload that torch writes for ``x + 1``: one converter then serves both."""

from __future__ import annotations

import torch
from torch._ops import OpOverload

from trtdiag.graph.operators import operator_of
from trtdiag.lower.draft import Draft

# ``pow`` is not among them: a converter wants to see that an exponent is a number.
_NAMES = (
    *("add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge"),
    *("remainder", "fmod", "bitwise_and", "bitwise_or", "bitwise_xor"),
)


def _pairs() -> dict[OpOverload, OpOverload]:
    found = {}
    for name in _NAMES:
        packet = getattr(torch.ops.aten, name)
        if "Scalar" in packet.overloads() and "Tensor" in packet.overloads():
            found[packet.Scalar] = packet.Tensor
    return found


TENSOR_OVERLOAD = _pairs()
"""``aten.eq.Scalar`` -> ``aten.eq.Tensor``, which takes the number as it is, with the same promotion of dtypes."""


def lift_scalars(draft: Draft) -> int:
    """Replace ``.Scalar`` overloads in place of themselves."""
    count = 0
    for node in draft.graph.nodes:
        op = operator_of(node)
        if op in TENSOR_OVERLOAD and len(node.args) == 2 and isinstance(node.args[1], (bool, int, float)):
            node.target = TENSOR_OVERLOAD[op]
            count += 1
    return count
