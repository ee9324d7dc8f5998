"""Attention."""

from __future__ import annotations

from dataclasses import replace

from trtdiag.convert import Call, converter, refuse
from trtdiag.convert.layer_writers.attention import attended
from trtdiag.network.value import Value


@converter
def scaled_dot_product_attention(call: Call) -> Value:
    """aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float
        dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor

    A query that sees no key gives 0, as in PyTorch. Refused with dropout.

    aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool
        is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)

    Refused with dropout, and where more than the first output is read.
    """
    return attended(call, "attn_mask", shared_heads=call.flag("enable_gqa"))


@converter
def attention_on_gpu(call: Call) -> Value:
    """aten::_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool
        is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor logsumexp,
        Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor rng_state, Tensor unused, Tensor
        debug_attn_mask)
    aten::_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool
        compute_log_sumexp, float dropout_p=0., bool is_causal=False, *, float? scale=None) -> (Tensor output, Tensor
        log_sumexp, Tensor philox_seed, Tensor philox_offset)
    aten::_scaled_dot_product_cudnn_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool
        compute_log_sumexp, float dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, float?
        scale=None) -> (Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k,
        Tensor philox_seed, Tensor philox_offset, Tensor debug_attn_mask)
    aten::_scaled_dot_product_fused_attention_overrideable(Tensor query, Tensor key, Tensor value, Tensor?
        attn_bias=None, float dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, float? scale=None) ->
        (Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor
        philox_seed, Tensor philox_offset, Tensor debug_attn_mask)

    Refused with dropout, where more than the first output is read, and causal of unequal lengths.
    """
    # These kernels differ in which keys a causal query sees where there are more keys than queries, or fewer.
    queries, keys = call.tensor("query").shape[-2], call.tensor("key").shape[-2]
    if call.flag("is_causal") and not call.write.builder.facts.equal(queries, keys):
        raise refuse("causal-lengths", "it is causal, and its queries and keys are not proven to be equally many")
    return attended(call, "attn_bias")


_LENGTHS = ("cum_seq_q", "cum_seq_k", "cu_seqlens_q", "cu_seqlens_k", "seqused_k", "seqlen_k")
_PARTS = {"block_table": "its keys lie in pages", "alibi_slopes": "it adds a slope for each head (ALiBi)"}
_WINDOWS = ("window_size_left", "window_size_right", "window_size")
_FROM_THE_FIRST, _FROM_THE_LAST = 1, 2
"""Of ``custom_mask_type``: the first query sees the first key, or the last query sees the last key."""


@converter
def attention_of_steps_before_heads(call: Call) -> Value:
    """aten::_flash_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, Tensor? cum_seq_k,
        SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, bool return_debug_mask, *, float? scale=None,
        SymInt? window_size_left=None, SymInt? window_size_right=None, Tensor? seqused_k=None, Tensor?
        alibi_slopes=None, Tensor? block_table=None, int? num_splits=None) -> (Tensor output, Tensor softmax_logsumexp,
        Tensor rng_state, Tensor unused, Tensor debug_attn_mask)
    aten::_efficient_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? bias, Tensor? cu_seqlens_q,
        Tensor? cu_seqlens_k, SymInt? max_seqlen_q, SymInt? max_seqlen_k, float dropout_p, int custom_mask_type, bool
        compute_log_sumexp=False, *, float? scale=None, Tensor? seqlen_k=None, int? window_size=None) -> (Tensor output,
        Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, SymInt max_seqlen_batch_q, SymInt
        max_seqlen_batch_k)

    Of (batch, steps, heads, width). Refused with dropout, where more than the first output is read, of sequences of
    several lengths in one tensor, with windows, pages or slopes, and causal from the last key of unequal lengths.
    """
    for name in _LENGTHS:
        if call.has(name):
            raise refuse(
                "variable-lengths",
                f"{name} says where sequences of several lengths lie, and attention in an engine has one for a batch",
                "pad them to one length, and give scaled_dot_product_attention a mask",
            )
    for name, why in _PARTS.items():
        if call.has(name):
            raise refuse("attention-form", f"{why}, which no layer does", "write it as a mask of float numbers")
    for name in _WINDOWS:
        if call.has(name) and call.integer(name) not in ((0, -1) if name == "window_size" else (-1,)):
            raise refuse("attention-form", f"{name} leaves out keys that are far away", "write the window as a mask")
    kind = call.integer("custom_mask_type") if call.has("custom_mask_type") else 0
    causal = call.flag("is_causal") or kind in (_FROM_THE_FIRST, _FROM_THE_LAST)
    queries, keys = call.tensor("query").shape[1], call.tensor("key").shape[1]
    if causal and kind != _FROM_THE_FIRST and not call.write.builder.facts.equal(queries, keys):
        raise refuse("causal-lengths", "it is causal, and its queries and keys are not proven to be equally many")
    order = (0, 2, 1, 3)
    given = {name: call.write.permute(call.tensor(name), order) for name in ("query", "key", "value")}
    shared = given["query"].shape[1] != given["key"].shape[1]
    heads_first = replace(call, arguments={**call.arguments, **given, "is_causal": causal})
    return call.write.permute(
        attended(heads_first, "bias" if "bias" in call.arguments else None, shared_heads=shared), order
    )
