"""Attention."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.attention import attended
from trtdiag.convert.refusal import refuse
from trtdiag.convert.registry import converter
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
