"""Text models of transformers, from configurations."""

from __future__ import annotations

import torch

from tests.guards.asks import BATCH, Span, tokens
from tests.guards.registry import Live, enter
from tests.guards.wrapping import FirstTensor, transformers_quiet


def length(high=512, name="t"):
    return Span(name, 2, high)


def language_model(name, make, *tags, note="", high=512, size=12, mask=True, apart=False, fixed=None):
    """Enter a model of token ids; ``apart`` gives the mask dims of its own."""
    spec = {0: BATCH, 1: length(high)}

    def build():
        ids, more = tokens(2, size), fixed or {}
        if not mask:
            return Live(model=FirstTensor(make(), ("input_ids",), **more), args=(ids,), spec=(spec,))
        of_mask = {0: Span("b2", 1, 64), 1: Span("t2", 2, high)} if apart else spec
        return Live(
            model=FirstTensor(make(), ("input_ids", "attention_mask"), **more),
            args=(ids, torch.ones_like(ids)),
            spec=(spec, of_mask),
        )

    enter(name, build, "transformers", ("text", *tags), note)


SMALL = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}

language_model(
    "hf_bert",
    lambda: transformers_quiet().BertModel(transformers_quiet().BertConfig(**SMALL, max_position_embeddings=128)),
    "encoder",
    high=512,
    note="max_position_embeddings 128 < asked 512",
)

language_model(
    "hf_bert_sep_mask",
    lambda: transformers_quiet().BertModel(transformers_quiet().BertConfig(**SMALL, max_position_embeddings=512)),
    "encoder",
    apart=True,
    note="mask dims named separately",
)

language_model(
    "hf_deberta_v2",
    lambda: transformers_quiet().DebertaV2Model(
        transformers_quiet().DebertaV2Config(
            **SMALL,
            max_position_embeddings=512,
            relative_attention=True,
            pos_att_type=["p2c", "c2p"],
            position_buckets=32,
        )
    ),
    "encoder",
)

language_model(
    "hf_mobilebert",
    lambda: transformers_quiet().MobileBertModel(
        transformers_quiet().MobileBertConfig(
            vocab_size=64,
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=4,
            intermediate_size=32,
            intra_bottleneck_size=32,
            embedding_size=32,
        )
    ),
    "encoder",
)

language_model(
    "hf_longformer",
    lambda: transformers_quiet().LongformerModel(
        transformers_quiet().LongformerConfig(**SMALL, attention_window=[8], max_position_embeddings=520)
    ),
    "encoder",
    "window",
    size=16,
    note="pads to window multiple",
)

language_model(
    "hf_bigbird",
    lambda: transformers_quiet().BigBirdModel(
        transformers_quiet().BigBirdConfig(
            **SMALL, attention_type="block_sparse", block_size=4, num_random_blocks=1, max_position_embeddings=512
        )
    ),
    "encoder",
    "window",
    size=64,
)

language_model(
    "hf_nystromformer",
    lambda: transformers_quiet().NystromformerModel(
        transformers_quiet().NystromformerConfig(**SMALL, num_landmarks=4, segment_means_seq_len=16)
    ),
    "encoder",
    "window",
    size=16,
)

language_model(
    "hf_reformer_local",
    lambda: transformers_quiet().ReformerModel(
        transformers_quiet().ReformerConfig(
            vocab_size=64,
            hidden_size=32,
            num_attention_heads=2,
            attention_head_size=16,
            feed_forward_size=32,
            attn_layers=["local"],
            local_attn_chunk_length=8,
            axial_pos_embds=False,
            max_position_embeddings=512,
            is_decoder=False,
        )
    ),
    "encoder",
    "window",
    size=16,
    mask=False,
)

language_model(
    "hf_llama",
    lambda: transformers_quiet().LlamaForCausalLM(transformers_quiet().LlamaConfig(**SMALL, num_key_value_heads=2)),
    "decoder",
    high=4096,
    fixed={"use_cache": False},
)

language_model(
    "hf_qwen2",
    lambda: transformers_quiet().Qwen2ForCausalLM(transformers_quiet().Qwen2Config(**SMALL, num_key_value_heads=2)),
    "decoder",
    high=4096,
    fixed={"use_cache": False},
)

language_model(
    "hf_gemma2",
    lambda: transformers_quiet().Gemma2ForCausalLM(
        transformers_quiet().Gemma2Config(**SMALL, num_key_value_heads=2, head_dim=8, sliding_window=8)
    ),
    "decoder",
    high=4096,
    size=12,
    fixed={"use_cache": False},
)

language_model(
    "hf_mixtral_moe",
    lambda: transformers_quiet().MixtralForCausalLM(
        transformers_quiet().MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2)
    ),
    "decoder",
    "moe",
    high=4096,
    fixed={"use_cache": False},
)

language_model(
    "hf_gpt_neo_local",
    lambda: transformers_quiet().GPTNeoForCausalLM(
        transformers_quiet().GPTNeoConfig(
            vocab_size=64,
            hidden_size=32,
            num_layers=2,
            num_heads=4,
            attention_types=[[["global", "local"], 1]],
            window_size=8,
            max_position_embeddings=256,
        )
    ),
    "decoder",
    high=512,
    fixed={"use_cache": False},
)

language_model(
    "hf_mamba",
    lambda: transformers_quiet().MambaForCausalLM(
        transformers_quiet().MambaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=1, state_size=4)
    ),
    "decoder",
    "ssm",
    high=256,
    mask=False,
    fixed={"use_cache": False},
)

language_model(
    "hf_mamba2_chunk",
    lambda: transformers_quiet().Mamba2ForCausalLM(
        transformers_quiet().Mamba2Config(
            vocab_size=64,
            hidden_size=32,
            num_hidden_layers=1,
            state_size=8,
            head_dim=8,
            num_heads=8,
            n_groups=1,
            chunk_size=8,
        )
    ),
    "decoder",
    "ssm",
    "pad-branch",
    high=512,
    size=16,
    mask=False,
    fixed={"use_cache": False},
)


def encoder_decoder(name, make, *tags, high=512):
    """Enter a model of source and target token ids."""

    def build():
        return Live(
            model=FirstTensor(make(), ("input_ids", "decoder_input_ids"), use_cache=False),
            args=(tokens(2, 10), tokens(2, 7)),
            spec=({0: BATCH, 1: length(high, "s")}, {0: BATCH, 1: length(high)}),
        )

    enter(name, build, "transformers", ("text", "encdec", *tags))


encoder_decoder(
    "hf_bart",
    lambda: transformers_quiet().BartForConditionalGeneration(
        transformers_quiet().BartConfig(
            vocab_size=64,
            d_model=32,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            max_position_embeddings=128,
        )
    ),
)

encoder_decoder(
    "hf_pegasus_x",
    lambda: transformers_quiet().PegasusXForConditionalGeneration(
        transformers_quiet().PegasusXConfig(
            vocab_size=64,
            d_model=32,
            encoder_layers=2,
            decoder_layers=1,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            num_global_tokens=4,
            block_size=8,
            max_position_embeddings=512,
        )
    ),
    "window",
)
