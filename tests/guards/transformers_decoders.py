"""Decoders of transformers with caches as tensors, each tensor's length declared apart."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.guards.asks import BATCH, Span, tokens
from tests.guards.registry import Live, enter
from tests.guards.wrapping import transformers_quiet

LAYERS, HEADS, WIDTH = 2, 4, 8
SMALL: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": HEADS * WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 64,
    "max_position_embeddings": 512,
}
ENCODER_DECODER: dict[str, Any] = {
    "vocab_size": 64,
    "d_model": HEADS * WIDTH,
    "encoder_layers": 1,
    "decoder_layers": LAYERS,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}


def kept(length: int, heads: int) -> torch.Tensor:
    """Keys or values of earlier tokens."""
    return torch.randn(2, heads, length, WIDTH)


def pairs(tensors: tuple[torch.Tensor, ...]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Keys with values, a layer each."""
    return list(zip(tensors[::2], tensors[1::2], strict=True))


class CachedStep(nn.Module):
    """One step of a language model: ids, a mask where it takes one, then keys and values of each layer."""

    def __init__(self, m: nn.Module, masked: bool) -> None:
        super().__init__()
        self.m, self.masked = m, masked

    def forward(self, ids: torch.Tensor, mask: torch.Tensor | None, cache: list[torch.Tensor]) -> Any:
        past = transformers_quiet().DynamicCache(pairs(tuple(cache)))
        mask = mask if self.masked else None
        return self.m(input_ids=ids, attention_mask=mask, past_key_values=past, use_cache=True).logits


def cached_step(name, make, *tags, heads=HEADS, masked=True, layers=LAYERS, note=""):
    """Enter a step of a language model."""

    def build():
        lengths = [{0: BATCH, 2: Span(f"{kind}{layer}", 2, 255)} for layer in range(layers) for kind in "kv"]
        mask = torch.ones(2, 10, dtype=torch.int64) if masked else None
        return Live(
            model=CachedStep(make(), masked),
            args=(tokens(2, 1), mask, [kept(9, heads) for _ in lengths]),
            spec=({0: BATCH}, {0: BATCH, 1: Span("m", 3, 256)} if masked else None, lengths),
        )

    enter(name, build, "transformers", ("text", "decoder", "kv-cache", *tags), note)


cached_step(
    "hf_llama_cache",
    lambda: transformers_quiet().LlamaForCausalLM(transformers_quiet().LlamaConfig(**SMALL, num_key_value_heads=2)),
    "gqa",
    heads=2,
    note="grouped queries, a mask",
)

cached_step(
    "hf_gpt2_cache",
    lambda: transformers_quiet().GPT2LMHeadModel(
        transformers_quiet().GPT2Config(
            vocab_size=64, n_embd=HEADS * WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=512
        )
    ),
    masked=False,
    note="learned positions, no mask",
)

cached_step(
    "hf_mistral_window_cache",
    lambda: transformers_quiet().MistralForCausalLM(
        transformers_quiet().MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=6)
    ),
    "gqa",
    "window",
    heads=2,
    masked=False,
)


class CrossCachedStep(nn.Module):
    """One step of an encoder-decoder's decoder with caches for itself and for the encoder's states."""

    def __init__(self, m: nn.Module) -> None:
        super().__init__()
        self.decoder = m.get_decoder()

    def forward(self, ids: torch.Tensor, encoded: torch.Tensor, own: list[Any], cross: list[Any]) -> Any:
        t = transformers_quiet()
        past = t.EncoderDecoderCache(t.DynamicCache(pairs(tuple(own))), t.DynamicCache(pairs(tuple(cross))))
        return self.decoder(input_ids=ids, encoder_hidden_states=encoded, past_key_values=past).last_hidden_state


def cross_cached_step(name, make):
    """Enter a decoder's step; the encoder's states beside its cached keys and values have lengths of their own."""

    def build():
        own = [{0: BATCH, 2: Span(f"{kind}{layer}", 2, 255)} for layer in range(LAYERS) for kind in "kv"]
        cross = [{0: BATCH, 2: Span(f"c{kind}{layer}", 2, 255)} for layer in range(LAYERS) for kind in "kv"]
        return Live(
            model=CrossCachedStep(make()),
            args=(
                tokens(2, 1),
                torch.randn(2, 11, HEADS * WIDTH),
                [kept(9, HEADS) for _ in own],
                [kept(11, HEADS) for _ in cross],
            ),
            spec=({0: BATCH}, {0: BATCH, 1: Span("s", 2, 255)}, own, cross),
        )

    enter(name, build, "transformers", ("text", "decoder", "kv-cache", "cross"))


cross_cached_step(
    "hf_bart_cache",
    lambda: transformers_quiet().BartModel(
        transformers_quiet().BartConfig(**ENCODER_DECODER, max_position_embeddings=512)
    ),
)
cross_cached_step(
    "hf_whisper_cache",
    lambda: transformers_quiet().WhisperModel(
        transformers_quiet().WhisperConfig(
            **ENCODER_DECODER,
            max_target_positions=512,
            max_source_positions=256,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        )
    ),
)


class StaticStep(nn.Module):
    """Prompts and steps over a static cache whose length and positions are inputs."""

    def __init__(self, m: nn.Module) -> None:
        super().__init__()
        self.m = m

    def forward(self, ids: torch.Tensor, position_ids: torch.Tensor, mask: torch.Tensor, cache: list[Any]) -> Any:
        past = transformers_quiet().DynamicCache(pairs(tuple(cache)))
        # A mask of four dims is added to the scores as it is.
        return self.m(input_ids=ids, position_ids=position_ids, attention_mask=mask, past_key_values=past).logits


def build_positions():
    lengths = [{0: BATCH, 2: Span(f"{kind}{layer}", 2, 255)} for layer in range(LAYERS) for kind in "kv"]
    t = transformers_quiet()
    return Live(
        model=StaticStep(t.Qwen2ForCausalLM(t.Qwen2Config(**SMALL, num_key_value_heads=2))),
        args=(tokens(2, 3), torch.arange(9, 12).repeat(2, 1), torch.zeros(2, 1, 3, 12), [kept(9, 2) for _ in lengths]),
        spec=(
            {0: BATCH, 1: Span("q", 2, 127)},
            {0: BATCH, 1: Span("p", 2, 127)},
            {0: BATCH, 2: Span("rows", 2, 127), 3: Span("columns", 4, 382)},
            lengths,
        ),
    )


enter(
    "hf_qwen2_positions_mask",
    build_positions,
    "transformers",
    ("text", "decoder", "kv-cache", "gqa", "mask"),
    "positions and an additive mask as inputs",
)
