"""Brings a binary op with a number to the overload that torch writes for ``x + 1``: one converter then serves both."""

from __future__ import annotations

from torch._ops import OpOverload

from trtdiag.graph.operators import ATEN, operator_of
from trtdiag.lower.draft import Draft

TENSOR_OVERLOAD: dict[OpOverload, OpOverload] = {
    ATEN.add.Scalar: ATEN.add.Tensor,
    ATEN.sub.Scalar: ATEN.sub.Tensor,
    ATEN.mul.Scalar: ATEN.mul.Tensor,
    ATEN.div.Scalar: ATEN.div.Tensor,
}
"""The four whose ``.Tensor`` overload takes a number as it is, with the same promotion of dtypes (torch 2.11, 2.13)."""


def lift_scalars(draft: Draft) -> int:
    """Replace ``.Scalar`` overloads in place of themselves."""
    count = 0
    for node in draft.graph.nodes:
        op = operator_of(node)
        if op in TENSOR_OVERLOAD and len(node.args) == 2 and isinstance(node.args[1], (bool, int, float)):
            node.target = TENSOR_OVERLOAD[op]
            count += 1
    return count
