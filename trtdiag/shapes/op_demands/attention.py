"""Attention in one op."""

from __future__ import annotations

from trtdiag.shapes.op_call import OpCall
from trtdiag.shapes.op_demands.registry import asks
from trtdiag.shapes.shape_constraints import Demands, attended

FUSED = (
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_fused_attention_overrideable",
)
"""The forms that scaled_dot_product_attention is decomposed into."""


@asks("flex_attention")
def flex_attention(call: OpCall) -> Demands:
    """The same, where a nested graph says which keys a query sees."""
    yield from attended(*(call.shape(name) for name in ("query", "key", "value")), shared=True)


@asks("scaled_dot_product_attention", *FUSED)
def attention(call: OpCall) -> Demands:
    """Keys and values come in pairs, and the mask has a place for each query and key."""
    query, key, value = (call.shape(name) for name in ("query", "key", "value"))
    mask = call.optional_shape("attn_mask")
    if mask is None:
        mask = call.optional_shape("attn_bias")
    yield from attended(query, key, value, mask, shared=call.flag("enable_gqa"))
