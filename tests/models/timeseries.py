"""Time series, control and scientific models."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim

from tests.models.asks import BATCH, SEQ, positional, single, transformers_model
from tests.models.registry import zoo


@zoo("timeseries")
def patchtst():
    m = transformers_model(
        "PatchTSTForPrediction",
        "PatchTSTConfig",
        context_length=64,
        patch_length=8,
        patch_stride=8,
        num_input_channels=3,
        d_model=32,
        num_attention_heads=4,
        ffn_dim=64,
        num_hidden_layers=6,
        prediction_length=24,
    )
    return positional(m, lambda m, x: m(past_values=x).prediction_outputs, (torch.randn(2, 64, 3), {0: BATCH}))


@zoo("timeseries")
def informer():
    k = {
        "prediction_length": 12,
        "context_length": 24,
        "lags_sequence": [1, 2, 3],
        "num_time_features": 2,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
    }
    m = transformers_model("InformerForPrediction", "InformerConfig", **k)

    def f(m, pv, pt, po, ft):
        return m.model(
            past_values=pv,
            past_time_features=pt,
            past_observed_mask=po,
            future_values=None,
            future_time_features=ft,
            static_categorical_features=None,
        ).encoder_last_hidden_state

    return positional(
        m,
        f,
        (torch.randn(2, 27), {0: BATCH}),
        (torch.randn(2, 27, 2), {0: BATCH}),
        (torch.ones(2, 27), {0: BATCH}),
        (torch.randn(2, 12, 2), {0: BATCH}),
    )


@zoo("timeseries")
def autoformer():
    k = {
        "prediction_length": 12,
        "context_length": 24,
        "lags_sequence": [1, 2, 3],
        "num_time_features": 2,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
    }
    m = transformers_model("AutoformerModel", "AutoformerConfig", **k)
    return positional(
        m,
        lambda m, pv, pt, po, fv, ft: (
            m(
                past_values=pv, past_time_features=pt, past_observed_mask=po, future_values=fv, future_time_features=ft
            ).last_hidden_state
        ),
        (torch.randn(2, 27), {0: BATCH}),
        (torch.randn(2, 27, 2), {0: BATCH}),
        (torch.ones(2, 27), {0: BATCH}),
        (torch.randn(2, 12), {0: BATCH}),
        (torch.randn(2, 12, 2), {0: BATCH}),
    )


@zoo("timeseries")
def tcn():
    class Blk(nn.Module):
        def __init__(self, i, o, d):
            super().__init__()
            self.p, self.c, self.s = (
                (2 * d, 0),
                nn.utils.parametrizations.weight_norm(nn.Conv1d(i, o, 3, dilation=d)),
                nn.Conv1d(i, o, 1),
            )

        def forward(self, x):
            return (self.c(nn.functional.pad(x, self.p)).relu() + self.s(x)).relu()

    m = nn.Sequential(
        *[Blk(8 if k == 0 else 32, 32, 2**k) for k in range(8)], nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 5)
    )
    return single(m, torch.randn(2, 8, 100), {0: BATCH, 2: SEQ})


@zoo("timeseries")
def nerf_mlp():
    """Radiance field: sin/cos encoding, MLP, alpha compositing with cumprod."""

    class Net(nn.Module):
        def __init__(self, octaves=10):
            super().__init__()
            self.register_buffer("f", 2.0 ** torch.arange(octaves))
            self.a, self.b, self.o = (
                nn.ModuleList(nn.Linear(i, 64) for i in (63, 64, 64, 64)),
                nn.ModuleList(nn.Linear(i, 64) for i in (127, 64, 64)),
                nn.Linear(64, 4),
            )

        def forward(self, o, d, t):
            x = o[:, None] + d[:, None] * t[..., None]
            e = (x[..., None] * self.f).flatten(-2)
            e = h = torch.cat([x, e.sin(), e.cos()], -1)
            for a in self.a:
                h = a(h).relu()
            h = torch.cat([h, e], -1)
            for b in self.b:
                h = b(h).relu()
            y = self.o(h)
            dt = torch.cat([t[:, 1:] - t[:, :-1], torch.full_like(t[:, :1], 1e10)], 1)
            al = 1 - (-nn.functional.softplus(y[..., 3]) * dt).exp()
            w = al * torch.cumprod(torch.cat([torch.ones_like(al[:, :1]), 1 - al + 1e-10], 1), 1)[:, :-1]
            return (w[..., None] * y[..., :3].sigmoid()).sum(1)

    r = Dim("rays", min=1, max=4096)
    return (
        Net().eval(),
        (torch.randn(8, 3), torch.randn(8, 3), torch.rand(8, 32).sort(-1).values),
        {},
        ({0: r}, {0: r}, {0: r}),
    )
