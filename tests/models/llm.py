"""Language model decoders: whole sequences, steps with a cache, sampling."""

from __future__ import annotations

import functools

import torch
from torch import nn
from torch.export import Dim

from tests.models.asks import BATCH, BATCH_SEQ, PAST, padding_mask, positional, tokens
from tests.models.registry import zoo

LLM = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
}
MOE = dict(LLM, moe_intermediate_size=64, num_experts=16, num_experts_per_tok=4)
LLMS = {
    "llama_32l": (
        "LlamaForCausalLM",
        "LlamaConfig",
        dict(
            LLM,
            num_hidden_layers=32,
            rope_parameters={
                "rope_type": "llama3",
                "rope_theta": 500000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 512,
            },
        ),
    ),
    "qwen2_24l": ("Qwen2ForCausalLM", "Qwen2Config", dict(LLM, num_hidden_layers=24)),
    "qwen3_28l": ("Qwen3ForCausalLM", "Qwen3Config", dict(LLM, num_hidden_layers=28, head_dim=32)),
    "gemma3_12l": (
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        dict(LLM, num_hidden_layers=12, head_dim=16, sliding_window=64),
    ),
    "mistral_8l": ("MistralForCausalLM", "MistralConfig", dict(LLM, num_hidden_layers=8, sliding_window=64)),
    "phi2_8l": ("PhiForCausalLM", "PhiConfig", dict(LLM, num_hidden_layers=8, num_key_value_heads=8)),
    "phi3_8l": (
        "Phi3ForCausalLM",
        "Phi3Config",
        dict(LLM, num_hidden_layers=8, pad_token_id=0, bos_token_id=1, eos_token_id=2),
    ),
    "gpt2_12l": ("GPT2LMHeadModel", "GPT2Config", {"n_embd": 128, "n_layer": 12, "n_head": 8, "vocab_size": 1000}),
    "bloom_8l": (
        "BloomForCausalLM",
        "BloomConfig",
        {"hidden_size": 128, "n_layer": 8, "n_head": 8, "vocab_size": 1000},
    ),
    "qwen3_moe_8l": (
        "Qwen3MoeForCausalLM",
        "Qwen3MoeConfig",
        dict(MOE, num_hidden_layers=8, head_dim=32, experts_implementation="grouped_mm"),
    ),
    "gpt_oss_12l": (
        "GptOssForCausalLM",
        "GptOssConfig",
        dict(
            LLM,
            num_hidden_layers=12,
            head_dim=16,
            num_local_experts=8,
            sliding_window=64,
            experts_implementation="batched_mm",
        ),
    ),
}


def llm(name):
    """Random-weight causal LM by registry name."""
    import transformers

    model, config, options = LLMS[name]
    options = dict(options)
    experts = options.pop("experts_implementation", None)
    configured = getattr(transformers, config)(**options)
    if experts:
        configured._experts_implementation = experts
    return getattr(transformers, model)(configured).eval()


def build_prefill(name):
    """Full-sequence forward without cache, with a padding mask."""
    return positional(
        llm(name),
        lambda m, i, a: m(input_ids=i, attention_mask=a, use_cache=False).logits,
        (tokens(), BATCH_SEQ),
        (padding_mask(), BATCH_SEQ),
    )


def build_decode(name):
    """One decode step: KV cache as plain tensors in and out, all layers; cache length dynamic."""
    import transformers

    m = llm(name)
    c = m.config
    layers, h = c.num_hidden_layers, getattr(c, "num_key_value_heads", None) or c.num_attention_heads
    d = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads

    def f(m, i, a, *kv):
        cache = transformers.DynamicCache([(kv[2 * k], kv[2 * k + 1]) for k in range(layers)])
        o = m(input_ids=i, attention_mask=a, past_key_values=cache, use_cache=True)
        return (o.logits, *tuple(x for y in cache.layers for x in (y.keys, y.values)))

    return positional(
        m,
        f,
        (tokens(2, 1), {0: BATCH}),
        (torch.ones(2, 10, dtype=torch.int64), {0: BATCH, 1: PAST + 1}),
        *[(torch.randn(2, h, 9, d), {0: BATCH, 2: PAST}) for _ in range(2 * layers)],
    )


def build_static(name):
    """Hugging Face's exportable module with a static cache: buffers mutated in place, one graph for both phases."""
    from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM

    m = llm(name)
    m.generation_config.cache_implementation, m.generation_config.use_cache = "static", True
    x = TorchExportableModuleForDecoderOnlyLM(m, batch_size=1, max_cache_len=128).model.eval()
    q = Dim("q", min=1, max=127)
    return (
        x,
        (),
        {"input_ids": tokens(1, 5), "cache_position": torch.arange(5)},
        {"input_ids": {1: q}, "cache_position": {0: q}},
    )


for _name in LLMS:
    zoo("llm", "llm_" + _name)(functools.partial(build_prefill, _name))
for _name in ("llama_32l", "gpt2_12l"):
    zoo("llm_kv", f"llm_{_name}_kv")(functools.partial(build_decode, _name))
zoo("llm_kv", "llm_gemma3_12l_static")(functools.partial(build_static, "gemma3_12l"))


@zoo("llm_kv")
def sampler_top_p():
    """Temperature, top-k, top-p and multinomial sampling on logits."""

    def f(m, x, t):
        x = x / t[:, None]
        x = x.masked_fill(x < x.topk(50).values[:, -1:], float("-inf"))
        s, i = x.sort(descending=True)
        p = s.softmax(-1)
        drop = p.cumsum(-1) - p > 0.9
        x = x.masked_fill(torch.zeros_like(drop).scatter(1, i, drop), float("-inf"))
        return torch.multinomial(x.softmax(-1), 1)

    return positional(nn.Identity(), f, (torch.randn(2, 1000), {0: BATCH}), (torch.ones(2), {0: BATCH}))
