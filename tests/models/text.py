"""Text encoders and encoder-decoders."""

from __future__ import annotations

import functools

import torch

from tests.models.asks import BATCH, BATCH_SEQ, PAST, TARGET, padding_mask, positional, tokens, transformers_model
from tests.models.registry import zoo

ENC = {
    "hidden_size": 96,
    "num_hidden_layers": 12,
    "num_attention_heads": 4,
    "intermediate_size": 192,
    "vocab_size": 1000,
}


def build_encoder(model, config, options):
    m = transformers_model(model, config, **options)
    if model.startswith("FNet"):  # takes no mask
        return positional(m, lambda m, i: m(input_ids=i).logits, (tokens(), BATCH_SEQ))
    return positional(
        m, lambda m, i, a: m(input_ids=i, attention_mask=a).logits, (tokens(), BATCH_SEQ), (padding_mask(), BATCH_SEQ)
    )


ENCODERS = {
    "bert_base": ("BertForSequenceClassification", "BertConfig", ENC),
    "modernbert": (
        "ModernBertForMaskedLM",
        "ModernBertConfig",
        dict(ENC, num_hidden_layers=6, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2),
    ),
    "longformer": (
        "LongformerForSequenceClassification",
        "LongformerConfig",
        dict(ENC, num_hidden_layers=4, attention_window=8, max_position_embeddings=514),
    ),
    "fnet": (
        "FNetForMaskedLM",
        "FNetConfig",
        {"hidden_size": 96, "num_hidden_layers": 4, "intermediate_size": 192, "vocab_size": 1000},
    ),
}
for _name, _encoder in ENCODERS.items():
    zoo("nlp", _name)(functools.partial(build_encoder, *_encoder))

T5 = {
    "d_model": 96,
    "d_kv": 24,
    "d_ff": 192,
    "num_layers": 6,
    "num_heads": 4,
    "vocab_size": 1000,
    "decoder_start_token_id": 0,
}


@zoo("nlp")
def t5_encoder():
    return positional(
        transformers_model("T5EncoderModel", "T5Config", **T5),
        lambda m, i, a: m(input_ids=i, attention_mask=a).last_hidden_state,
        (tokens(), BATCH_SEQ),
        (padding_mask(), BATCH_SEQ),
    )


@zoo("nlp")
def t5_decoder():
    """Decoder step without cache, given the encoder output."""
    m = transformers_model("T5ForConditionalGeneration", "T5Config", feed_forward_proj="gated-gelu", **T5)

    def f(m, d, e, a):
        return m.lm_head(
            m.decoder(input_ids=d, encoder_hidden_states=e, encoder_attention_mask=a, use_cache=False).last_hidden_state
        )

    return positional(
        m, f, (tokens(2, 7), {0: BATCH, 1: TARGET}), (torch.randn(2, 24, 96), BATCH_SEQ), (padding_mask(), BATCH_SEQ)
    )


@zoo("nlp")
def bart_encdec():
    m = transformers_model(
        "BartForConditionalGeneration",
        "BartConfig",
        d_model=96,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=192,
        decoder_ffn_dim=192,
        vocab_size=1000,
    )
    return positional(
        m,
        lambda m, i, a, d: m(input_ids=i, attention_mask=a, decoder_input_ids=d, use_cache=False).logits,
        (tokens(), BATCH_SEQ),
        (padding_mask(), BATCH_SEQ),
        (tokens(2, 7), {0: BATCH, 1: TARGET}),
    )


@zoo("nlp")
def marian_decoder_kv():
    """Translation decoder step with self-attention cache (tensors in, tensors out) and given encoder states."""
    import transformers

    layers, h, d = 6, 4, 24
    m = transformers_model(
        "MarianMTModel",
        "MarianConfig",
        d_model=96,
        encoder_layers=6,
        decoder_layers=layers,
        encoder_attention_heads=h,
        decoder_attention_heads=h,
        encoder_ffn_dim=192,
        decoder_ffn_dim=192,
        vocab_size=1000,
        pad_token_id=0,
    )

    def f(m, i, e, a, *kv):
        c = transformers.EncoderDecoderCache(
            transformers.DynamicCache([(kv[2 * k], kv[2 * k + 1]) for k in range(layers)]), transformers.DynamicCache()
        )
        o = m.model.decoder(
            input_ids=i, encoder_hidden_states=e, encoder_attention_mask=a, past_key_values=c, use_cache=True
        )
        return (
            m.lm_head(o.last_hidden_state),
            *tuple(x for y in c.self_attention_cache.layers for x in (y.keys, y.values)),
        )

    return positional(
        m,
        f,
        (tokens(2, 1), {0: BATCH}),
        (torch.randn(2, 24, 96), BATCH_SEQ),
        (padding_mask(), BATCH_SEQ),
        *[(torch.randn(2, h, 9, d), {0: BATCH, 2: PAST})] * (2 * layers),
    )
