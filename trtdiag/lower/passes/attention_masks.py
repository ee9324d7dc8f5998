"""Leaves masks of attention out that mask nothing: with one, neither TensorRT nor PyTorch takes its fastest kernel."""

from __future__ import annotations

from torch.fx import Node

from trtdiag.graph.operators import ATEN, operator_of
from trtdiag.lower.draft import Draft

_MASK = 3
"""Its place among the arguments."""


def leave_full_masks_out(draft: Draft) -> int:
    """Call attention without masks whose elements are all true, as models make them where none is given.

    transformers writes ``arange(n) >= 0`` for it when it is exported.
    """
    count = 0
    for node in draft.graph.nodes:
        if operator_of(node) is not ATEN.scaled_dot_product_attention.default:
            continue
        given = dict(enumerate(node.args)) | node.kwargs
        for place in (_MASK, "attn_mask"):
            mask = given.get(place)
            if isinstance(mask, Node) and mask.name in draft.true:
                if place == _MASK:
                    node.update_arg(_MASK, None)
                else:
                    node.update_kwarg("attn_mask", None)
                count += 1
    return count
