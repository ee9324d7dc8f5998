"""Speech and audio."""

from __future__ import annotations

import functools
import itertools

import torch
from torch import nn
from torch.export import Dim

from tests.models.asks import AUDIO, BATCH, MEL, PAST, TARGET, positional, single, tokens, transformers_model
from tests.models.registry import zoo

WHISPER = {
    "d_model": 96,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 192,
    "decoder_ffn_dim": 192,
    "vocab_size": 1000,
    "num_mel_bins": 80,
    "max_source_positions": 1500,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}


@zoo("speech")
def whisper_encoder():
    m = transformers_model("WhisperModel", "WhisperConfig", **WHISPER).encoder
    return positional(m, lambda m, x: m(x).last_hidden_state, (torch.randn(2, 80, 3000), {0: BATCH}))


@zoo("speech")
def whisper_decoder():
    m = transformers_model("WhisperForConditionalGeneration", "WhisperConfig", **WHISPER)

    def f(m, i, e):
        return m.proj_out(m.model.decoder(input_ids=i, encoder_hidden_states=e, use_cache=False).last_hidden_state)

    return positional(m, f, (tokens(2, 7), {0: BATCH, 1: TARGET}), (torch.randn(2, 1500, 96), {0: BATCH}))


@zoo("speech")
def whisper_decoder_kv():
    """Decode step; self-attention and cross-attention caches as tensors."""
    import transformers

    layers, h, d = 6, 4, 24
    m = transformers_model("WhisperForConditionalGeneration", "WhisperConfig", **WHISPER)

    def f(m, i, pos, e, *kv):
        c = transformers.EncoderDecoderCache(
            transformers.DynamicCache([(kv[2 * k], kv[2 * k + 1]) for k in range(layers)]),
            transformers.DynamicCache([(kv[2 * layers + 2 * k], kv[2 * layers + 2 * k + 1]) for k in range(layers)]),
        )
        o = m.model.decoder(input_ids=i, position_ids=pos, encoder_hidden_states=e, past_key_values=c, use_cache=True)
        return (
            m.proj_out(o.last_hidden_state),
            *tuple(x for y in c.self_attention_cache.layers for x in (y.keys, y.values)),
        )

    return positional(
        m,
        f,
        (tokens(2, 1), {0: BATCH}),
        (torch.full((2, 1), 9), {0: BATCH}),
        (torch.randn(2, 1500, 96), {0: BATCH}),
        *[(torch.randn(2, h, 9, d), {0: BATCH, 2: PAST})] * (2 * layers),
        *[(torch.randn(2, h, 1500, d), {0: BATCH})] * (2 * layers),
    )


W2V = {
    "hidden_size": 96,
    "num_hidden_layers": 12,
    "num_attention_heads": 4,
    "intermediate_size": 192,
    "conv_dim": (64,) * 7,
    "vocab_size": 40,
}


def build_wav2vec2(model, config, layers):
    m = transformers_model(model, config, **dict(W2V, num_hidden_layers=layers))
    return positional(m, lambda m, x: m(x).logits, (torch.randn(2, 16000), {0: BATCH, 1: AUDIO}))


zoo("speech", "wav2vec2")(functools.partial(build_wav2vec2, "Wav2Vec2ForCTC", "Wav2Vec2Config", 12))
zoo("speech", "wav2vec2_conformer")(
    functools.partial(build_wav2vec2, "Wav2Vec2ConformerForCTC", "Wav2Vec2ConformerConfig", 4)
)


@zoo("speech")
def parakeet_fastconformer():
    m = transformers_model(
        "ParakeetForCTC",
        "ParakeetCTCConfig",
        vocab_size=100,
        encoder_config={
            "hidden_size": 96,
            "num_hidden_layers": 6,
            "num_attention_heads": 4,
            "intermediate_size": 192,
            "subsampling_conv_channels": 32,
            "num_mel_bins": 80,
        },
    )
    d = {0: BATCH, 1: MEL}
    return positional(
        m,
        lambda m, x, a: m(input_features=x, attention_mask=a).logits,
        (torch.randn(2, 160, 80), d),
        (torch.ones(2, 160, dtype=torch.int64), d),
    )


@zoo("speech")
def ast_audio():
    m = transformers_model(
        "ASTForAudioClassification",
        "ASTConfig",
        hidden_size=96,
        num_attention_heads=4,
        intermediate_size=192,
        max_length=256,
    )
    return positional(m, lambda m, x: m(x).logits, (torch.randn(2, 256, 128), {0: BATCH}))


@zoo("speech")
def moonshine():
    m = transformers_model(
        "MoonshineForConditionalGeneration",
        "MoonshineConfig",
        hidden_size=96,
        intermediate_size=192,
        encoder_num_hidden_layers=6,
        decoder_num_hidden_layers=6,
        encoder_num_attention_heads=4,
        decoder_num_attention_heads=4,
        vocab_size=1000,
    )
    return positional(
        m,
        lambda m, x, i: m(input_values=x, decoder_input_ids=i, use_cache=False).logits,
        (torch.randn(2, 16000), {0: BATCH, 1: AUDIO}),
        (tokens(2, 7), {0: BATCH, 1: TARGET}),
    )


@zoo("speech")
def demucs_like():
    """Waveform separation: conv/GLU encoder, LSTM, transposed-conv decoder with skips."""

    class Net(nn.Module):
        def __init__(self, ch=(1, 16, 32, 64)):
            super().__init__()
            self.e = nn.ModuleList(
                nn.Sequential(nn.Conv1d(i, o, 8, 4, 2), nn.ReLU(), nn.Conv1d(o, 2 * o, 1), nn.GLU(1))
                for i, o in itertools.pairwise(ch)
            )
            self.d = nn.ModuleList(
                nn.Sequential(nn.Conv1d(o, 2 * o, 3, 1, 1), nn.GLU(1), nn.ConvTranspose1d(o, max(i, 4), 8, 4, 2))
                for i, o in itertools.pairwise(ch)
            )
            self.l = nn.LSTM(64, 64, 2, batch_first=True, bidirectional=True)
            self.p = nn.Linear(128, 64)

        def forward(self, x):
            std = x.std((1, 2), keepdim=True, unbiased=False)
            x, s = x / (1e-3 + std), []
            for e in self.e:
                x = e(x)
                s.append(x)
            x = self.p(self.l(x.transpose(1, 2))[0]).transpose(1, 2)
            for k in (2, 1, 0):
                x = self.d[k](x + s[k])
                x = x.relu() if k else x
            return x * std

    return single(Net(), torch.randn(2, 1, 6400), {0: BATCH, 2: 64 * Dim("_f64", min=4, max=500)})
