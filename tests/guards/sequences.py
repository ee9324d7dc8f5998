"""Sequences, signals, batches, caches, and sizes born from data."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from tests.guards.asks import BATCH, Span, noise
from tests.guards.registry import Live, case


class Haar(nn.Module):
    def forward(self, x):
        a, b = (x[..., 0::2], x[..., 1::2])
        return torch.stack([a + b, a - b], -1).flatten(-2) + x


@case("hand", "signal")
def haar_interleave():
    return Live(model=Haar(), args=(torch.randn(2, 4, 64),), spec=({2: Span("t", 2, 4096)},))


class Chunk2Add(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        return a * torch.sigmoid(b)


@case("hand", "seq", "chunk")
def chunk2_gate():
    return Live(model=Chunk2Add(), args=(torch.randn(2, 16, 8),), spec=({1: Span("t", 2, 4096)},))


class Chunk3(nn.Module):
    def forward(self, x):
        a, b, c = x.chunk(3, dim=1)
        return a + b + c


@case("hand", "seq", "chunk")
def chunk3_add():
    return Live(model=Chunk3(), args=(torch.randn(2, 15, 8),), spec=({1: Span("t", 3, 4096)},))


class Split4(nn.Module):
    def forward(self, x):
        n = x.shape[1] // 4
        a, b, c, d = x.split(n, dim=1)
        return torch.cat([a + b, c + d], 1)


@case("hand", "seq", "chunk")
def split4_quarters():
    return Live(model=Split4(), args=(torch.randn(2, 32, 8),), spec=({1: Span("t", 4, 4096)},))


class SplitFixed(nn.Module):
    def forward(self, x):
        return torch.stack([c.mean(1) for c in x.split(64, dim=1)], 1)


@case("hand", "seq", "chunk")
def split_fixed64_ragged():
    return Live(model=SplitFixed(), args=(torch.randn(2, 200, 8),), spec=({1: Span("t", 2, 4096)},))


class ReshapeK(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
        self.l = nn.Linear(k, 4)

    def forward(self, x):
        return self.l(x.reshape(x.shape[0], -1, self.k))


@case("hand", "seq", "reshape")
def reshape_b_m1_k():
    return Live(model=ReshapeK(8), args=(torch.randn(2, 48),), spec=({0: BATCH, 1: Span("t", 8, 4096)},))


@case("hand", "seq", "reshape")
def reshape_b_m1_k_6ch12():
    return Live(model=ReshapeK(12), args=(torch.randn(2, 6, 64),), spec=({2: Span("t", 8, 4096)},))


class PairBatch(nn.Module):
    def forward(self, x):
        a, b = x.view(x.shape[0] // 2, 2, -1).unbind(1)
        return F.cosine_similarity(a, b, dim=-1)


@case("hand", "batch")
def paired_batch():
    return Live(model=PairBatch(), args=(torch.randn(8, 16),), spec=({0: Span("b", 1, 256)},))


class MinibatchStd(nn.Module):
    def forward(self, x):
        B, C, H, W = x.shape
        G = min(B, 4)
        y = x.reshape(G, -1, 1, C, H, W)
        y = (y - y.mean(0)).square().mean(0).sqrt().mean([2, 3, 4])
        y = y.reshape(-1, 1, 1, 1).repeat(G, 1, H, W)
        return torch.cat([x, y], 1)


@case("hand", "batch")
def minibatch_std():
    return Live(model=MinibatchStd(), args=(noise(8, 4, 6, 6),), spec=({0: Span("b", 1, 256)},))


class GhostBN(nn.Module):
    def forward(self, x):
        return torch.cat([F.layer_norm(c, c.shape[1:]) for c in x.chunk(4, 0)], 0)


@case("hand", "batch", "chunk")
def ghost_bn_chunk4():
    return Live(model=GhostBN(), args=(torch.randn(16, 8),), spec=({0: Span("b", 1, 1024)},))


class LSTMNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.r = nn.LSTM(8, 8, 2, batch_first=True, bidirectional=True)
        self.o = nn.Linear(16, 3)

    def forward(self, x):
        return self.o(self.r(x)[0])


@case("hand", "rnn")
def lstm_bt():
    return Live(model=LSTMNet(), args=(torch.randn(2, 11, 8),), spec=({0: BATCH, 1: Span("t", 2, 512)},))


class GRUPyr(nn.Module):
    """LAS style pyramidal encoder: time halved by concatenating pairs, twice"""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(16, 8)
        self.c = nn.Linear(16, 8)

    def forward(self, x):
        x = self.a(x)
        for linear in (self.b, self.c):
            x = linear(x.reshape(x.shape[0], x.shape[1] // 2, x.shape[2] * 2)).tanh()
        return x


@case("hand", "rnn", "reshape")
def pyramidal_encoder():
    return Live(model=GRUPyr(), args=(torch.randn(2, 32, 8),), spec=({0: BATCH, 1: Span("t", 4, 4096)},))


class Rotary(nn.Module):
    def __init__(self, n=2048):
        super().__init__()
        self.register_buffer("t", torch.randn(n, 8))

    def forward(self, x):
        return x * self.t[: x.shape[1]]


@case("hand", "seq", "range")
def table_slice_2048():
    return Live(model=Rotary(), args=(torch.randn(2, 16, 8),), spec=({1: Span("t", 2, 4096)},))


class OddPad(nn.Module):
    def forward(self, x):
        if x.shape[-1] % 2:
            x = F.pad(x, (0, 1))
        return F.avg_pool1d(x, 2)


@case("hand", "signal", "pad-branch")
def odd_pad_even_example():
    return Live(model=OddPad(), args=(torch.randn(2, 3, 40),), spec=({2: Span("t", 2, 4096)},))


class BlockLocal(nn.Module):
    def __init__(self, w=16, pad=True):
        super().__init__()
        self.w = w
        self.pad = pad

    def forward(self, x):
        B, T, C = x.shape
        p = -T % self.w
        x = F.pad(x, (0, 0, 0, p)) if self.pad else x
        y = x.reshape(B, -1, self.w, C)
        y = F.scaled_dot_product_attention(y, y, y)
        return y.reshape(B, -1, C)[:, :T]


@case("hand", "seq", "pad-branch")
def block_local_pad():
    return Live(model=BlockLocal(16), args=(torch.randn(2, 50, 8),), spec=({1: Span("t", 2, 4096)},))


class AudioCodec(nn.Module):
    """strides 2,4,5,8 encoder/decoder with residual on the wave: T % 320 == 0"""

    def __init__(self, strides=(2, 4, 5, 8)):
        super().__init__()
        self.e = nn.ModuleList()
        self.d = nn.ModuleList()
        for r in strides:
            self.e.append(nn.Conv1d(2, 2, 2 * r, r, padding=(r + 1) // 2))
        for r in reversed(strides):
            self.d.append(nn.ConvTranspose1d(2, 2, 2 * r, r, padding=(r + 1) // 2, output_padding=r % 2))

    def forward(self, x):
        y = x
        for c in self.e:
            y = c(y)
        for c in self.d:
            y = c(y)
        return x - y


@case("hand", "signal", "residue")
def audio_codec_320():
    return Live(model=AudioCodec(), args=(torch.randn(1, 2, 3200),), spec=({2: Span("t", 320, 48000)},))


class STFTBack(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv1d(1, 9, 16, 8)
        self.d = nn.ConvTranspose1d(9, 1, 16, 8)

    def forward(self, x):
        return self.d(self.c(x)) + x


@case("hand", "signal", "residue")
def stft_like_hop8():
    return Live(model=STFTBack(), args=(torch.randn(1, 1, 160),), spec=({2: Span("t", 16, 16000)},))


class PadSTFT(nn.Module):
    def forward(self, x):
        return torch.stft(x, 64, 16, window=torch.hann_window(64), center=True, return_complex=True).abs()


@case("hand", "signal")
def stft_op():
    return Live(model=PadSTFT(), args=(torch.randn(2, 800),), spec=({1: Span("t", 64, 16000)},))


class StaticCache(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("c", torch.zeros(1, 256, 8))

    def forward(self, x):
        T = x.shape[1]
        c = torch.cat([x, self.c[:, T:].expand(x.shape[0], -1, -1)], 1)
        return c + self.c


@case("hand", "kv-cache", "range")
def static_cache_prefill():
    return Live(model=StaticCache(), args=(torch.randn(2, 10, 8),), spec=({0: BATCH, 1: Span("t", 1, 4096)},))


class PosAdd(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(50, 8)
        self.p = nn.Parameter(torch.randn(1, 64, 8))

    def forward(self, tokens):
        return self.e(tokens) + self.p


@case("hand", "seq", "static")
def pos_add_full_table():
    return Live(model=PosAdd(), args=(torch.randint(0, 50, (2, 64)),), spec=({0: BATCH, 1: Span("t", 2, 512)},))


class TopKFrac(nn.Module):
    def forward(self, x):
        return x.topk(x.shape[1] // 4, dim=1)[0].reshape(x.shape[0], 2, -1)


@case("hand", "seq", "nested-floor")
def topk_quarter_pair():
    return Live(model=TopKFrac(), args=(torch.randn(2, 64),), spec=({1: Span("t", 8, 4096)},))


class NonZero(nn.Module):
    def forward(self, x):
        i = x[0].nonzero().squeeze(1)
        if i.shape[0] > 3:
            return i * 2
        return i


@case("hand", "data-dependent")
def nonzero_branch():
    return Live(model=NonZero(), args=(torch.ones(2, 9),), spec=({1: Span("t", 2, 512)},))


class ItemSlice(nn.Module):
    def forward(self, x, n):
        k = n.item()
        return x[:, :k].sum(1)


@case("hand", "data-dependent")
def item_slice():
    return Live(model=ItemSlice(), args=(torch.randn(2, 9), torch.tensor(4)), spec=({1: Span("t", 2, 512)}, None))


class ContextChunks(nn.Module):
    """Emformer / streaming: T = n*chunk + right context"""

    def forward(self, x):
        B, T, C = x.shape
        r = 4
        body = x[:, : T - r]
        return body.reshape(B, (T - r) // 8, 8, C).mean(2) + x[:, T - r :].mean(1, keepdim=True)


@case("hand", "seq", "residue", note="ideal: t = 8*_t + 4")
def chunks_plus_context():
    return Live(model=ContextChunks(), args=(torch.randn(2, 36, 8),), spec=({0: BATCH, 1: Span("t", 12, 4096)},))
