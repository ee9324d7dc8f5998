"""Attention that drops weights, written as PyTorch's kernel for the CPU computes it, so that its dropout is an op."""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx

from trtdiag.graph.operators import named_arguments
from trtdiag.lower.draft import Draft, insert_steps
from trtdiag.lower.local_trace import as_template
from trtdiag.lower.template import gathered, stand_in
from trtdiag.lower.tracing_conditions import asking


def with_dropout_apart(draft: Draft, node: Node, op: OpOverload) -> Node | None:
    """Replace attention by products, a softmax and a dropout between, which is returned.

    ``None``: it is on a GPU, whose kernels draw within, or heads share keys, or its sizes are not known well enough.
    """
    named = named_arguments(node, op)
    tensors = [named[name] for name in ("query", "key", "value", "attn_mask") if named[name] is not None]
    given = gathered((node.args, node.kwargs), Node)
    if node.meta["val"].device.type != "cpu" or named["enable_gqa"] or given != tensors:
        return None
    size = tensors[0].meta["val"].shape[-1]
    if named["scale"] is None and not isinstance(size, int):
        return None
    scale = sqrt(float(named["scale"]) if named["scale"] is not None else 1 / sqrt(size))

    def body(*inputs: Tensor) -> Tensor:
        query, key, value, *masks = inputs
        mask = masks[0] if masks else None
        scores = torch.matmul(query * scale, (key * scale).transpose(-2, -1))
        if named["is_causal"]:
            mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask
        weights: Tensor = torch.ops.aten._safe_softmax.default(scores, -1)
        return torch.matmul(torch.dropout(weights, named["dropout_p"], True), value)

    env: Any = draft.mode.shape_env
    with torch.no_grad(), draft.mode, asking(env) as answers:
        inputs = [stand_in(one.meta["val"], draft.mode) for one in given]
        answers.clear()
        traced = make_fx(body, pre_dispatch=True)(*inputs)
    if draft.proofs.doubt(env, answers):
        return None
    values = insert_steps(draft.graph, node, as_template(traced, len(given)))
    values[-1].meta["val"] = node.meta["val"]
    node.replace_all_uses_with(values[-1])
    draft.graph.erase_node(node)
    dropouts = [one for one in values[len(given) :] if one.target is torch.ops.aten.dropout.default]
    return dropouts[0] if len(dropouts) == 1 else None
