"""Decoders with caches of their own: every size of a cache or mask declared apart, as people first write it."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from tests.guards.asks import BATCH, Span
from tests.guards.registry import Live, case

HEADS, WIDTH = 2, 8
MODEL = HEADS * WIDTH


def span(name: str, low: int = 1, high: int = 255) -> Span:
    """The range of one length of a cache, a mask or a prompt."""
    return Span(name, low, high)


def states(batch: int, length: int) -> torch.Tensor:
    """Hidden states."""
    return torch.randn(batch, length, MODEL)


def kept(batch: int, length: int, heads: int = HEADS) -> torch.Tensor:
    """Keys or values of earlier tokens."""
    return torch.randn(batch, heads, length, WIDTH)


class Projections(nn.Module):
    """Queries, keys and values of new tokens, and the output's projection."""

    def __init__(self, kv_heads: int = HEADS) -> None:
        super().__init__()
        self.kv_heads = kv_heads
        self.q = nn.Linear(MODEL, MODEL)
        self.k = nn.Linear(MODEL, kv_heads * WIDTH)
        self.v = nn.Linear(MODEL, kv_heads * WIDTH)
        self.o = nn.Linear(MODEL, MODEL)

    def qkv(self, x):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, HEADS, WIDTH).transpose(1, 2)
        k = self.k(x).view(b, t, self.kv_heads, WIDTH).transpose(1, 2)
        return q, k, self.v(x).view(b, t, self.kv_heads, WIDTH).transpose(1, 2)

    def out(self, y):
        b, _, t, _ = y.shape
        return self.o(y.transpose(1, 2).reshape(b, t, MODEL))


class Step(Projections):
    def forward(self, x, past_k, past_v):
        q, k, v = self.qkv(x)
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        return self.out(F.scaled_dot_product_attention(q, k, v)), k, v


STEP = ({0: BATCH}, {0: BATCH, 2: span("tk")}, {0: BATCH, 2: span("tv")})


@case("decoders", "kv-cache", note="keys and values declared apart")
def step_separate_kv():
    return Live(model=Step(), args=(states(2, 1), kept(2, 5), kept(2, 5)), spec=STEP)


@case("decoders", "kv-cache", note="and batches apart")
def step_separate_batches():
    spec = ({0: BATCH}, {0: span("bk", 1, 64), 2: span("tk")}, {0: span("bv", 1, 64), 2: span("tv")})
    return Live(model=Step(), args=(states(2, 1), kept(2, 5), kept(2, 5)), spec=spec)


class ByHand(Projections):
    def forward(self, x, past_k, past_v, mask):
        q, k, v = self.qkv(x)
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH)
        weights = torch.softmax(torch.where(mask[:, None, None, :], scores, -1e9), -1)
        return self.out(weights @ v)


@case("decoders", "kv-cache", "mask", note="softmax of products, a mask over past and present")
def step_by_hand_masked():
    mask = torch.ones(2, 6, dtype=torch.bool)
    return Live(
        model=ByHand(),
        args=(states(2, 1), kept(2, 5), kept(2, 5), mask),
        spec=(*STEP, {0: BATCH, 1: span("total", 2, 256)}),
    )


class Layers(nn.Module):
    def __init__(self, count: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Step() for _ in range(count))

    def forward(self, x, past):
        new = []
        for layer, (k, v) in zip(self.layers, past, strict=True):
            y, k, v = layer(x, k, v)
            x = x + y
            new.append((k, v))
        return x, new


@case("decoders", "kv-cache", "layers", note="a Dim for each layer's keys and values")
def step_cache_a_layer():
    return Live(
        model=Layers(),
        args=(states(2, 1), [(kept(2, 5), kept(2, 5)) for _ in range(3)]),
        spec=({0: BATCH}, [({0: BATCH, 2: span(f"k{i}")}, {0: BATCH, 2: span(f"v{i}")}) for i in range(3)]),
    )


class StaticCache(Projections):
    def forward(self, x, cache_k, cache_v, positions):
        q, k, v = self.qkv(x)
        cache_k = cache_k.index_copy(2, positions, k)
        cache_v = cache_v.index_copy(2, positions, v)
        visible = torch.arange(cache_k.shape[2]) <= positions[:, None]
        return self.out(F.scaled_dot_product_attention(q, cache_k, cache_v, attn_mask=visible)), cache_k, cache_v


@case("decoders", "kv-cache", "static", note="a cache of a fixed length that positions write into")
def static_cache_positions():
    return Live(
        model=StaticCache(),
        args=(states(2, 3), kept(2, 16), kept(2, 16), torch.arange(3)),
        spec=(
            {0: BATCH, 1: span("q", 1, 127)},
            {0: BATCH, 2: span("ck", 16, 512)},
            {0: BATCH, 2: span("cv", 16, 512)},
            {0: span("p", 1, 127)},
        ),
    )


class CrossAttention(Projections):
    def forward(self, x, encoded, mask):
        q, _, _ = self.qkv(x)
        _, k, v = self.qkv(encoded)
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :]))


@case("decoders", "cross", "mask", note="the encoder's states and their mask declared apart")
def cross_attention_mask():
    return Live(
        model=CrossAttention(),
        args=(states(2, 4), states(2, 7), torch.ones(2, 7, dtype=torch.bool)),
        spec=({0: BATCH, 1: span("t")}, {0: BATCH, 1: span("s", 2)}, {0: BATCH, 1: span("m", 2)}),
    )


class CrossCache(Projections):
    def forward(self, x, past_k, past_v, cross_k, cross_v):
        q, k, v = self.qkv(x)
        own = F.scaled_dot_product_attention(q, torch.cat([past_k, k], 2), torch.cat([past_v, v], 2))
        return self.out(own + F.scaled_dot_product_attention(q, cross_k, cross_v))


@case("decoders", "kv-cache", "cross", note="four lengths, two of them real")
def cross_cache():
    return Live(
        model=CrossCache(),
        args=(states(2, 1), kept(2, 5), kept(2, 5), kept(2, 9), kept(2, 9)),
        spec=(*STEP, {0: BATCH, 2: span("sk")}, {0: BATCH, 2: span("sv")}),
    )


class Grouped(Projections):
    def __init__(self, native: bool) -> None:
        super().__init__(kv_heads=1)
        self.native = native

    def forward(self, x, past_k, past_v):
        q, k, v = self.qkv(x)
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        if self.native:
            return self.out(F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
        k = k[:, :, None].expand(-1, -1, HEADS, -1, -1).reshape(k.shape[0], HEADS, -1, WIDTH)
        v = v[:, :, None].expand(-1, -1, HEADS, -1, -1).reshape(v.shape[0], HEADS, -1, WIDTH)
        return self.out(F.scaled_dot_product_attention(q, k, v))


@case("decoders", "kv-cache", "gqa")
def grouped_query_native():
    return Live(model=Grouped(native=True), args=(states(2, 1), kept(2, 5, 1), kept(2, 5, 1)), spec=STEP)


@case("decoders", "kv-cache", "gqa", note="heads repeated by expand and reshape")
def grouped_query_expanded():
    return Live(model=Grouped(native=False), args=(states(2, 1), kept(2, 5, 1), kept(2, 5, 1)), spec=STEP)


class Window(Projections):
    def __init__(self, window: int = 6) -> None:
        super().__init__()
        self.window = window

    def forward(self, x, past_k, past_v):
        q, k, v = self.qkv(x)
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        behind = torch.arange(x.shape[1])[:, None] + past_k.shape[2] - torch.arange(k.shape[2])
        seen = (behind >= 0) & (behind < self.window)
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=seen)), k[:, :, -4:], v[:, :, -4:]


@case("decoders", "kv-cache", "window", note="several new tokens, a mask from positions, the cache cut to its end")
def sliding_window():
    return Live(
        model=Window(),
        args=(states(2, 3), kept(2, 5), kept(2, 5)),
        spec=({0: BATCH, 1: span("q", 1, 127)}, {0: BATCH, 2: span("tk", 4)}, {0: BATCH, 2: span("tv", 4)}),
    )


class Causal(Projections):
    def forward(self, x, past_k, past_v):
        q, k, v = self.qkv(x)
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        rows = torch.arange(x.shape[1])[:, None] + past_k.shape[2]
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=torch.arange(k.shape[2]) <= rows)), k, v


@case("decoders", "kv-cache", "range", note="prompts and single tokens: q begins at 1, the cache at 0")
def prefill_and_decode():
    return Live(
        model=Causal(),
        args=(states(2, 3), kept(2, 5), kept(2, 5)),
        spec=({0: BATCH, 1: span("q", 1, 127)}, {0: BATCH, 2: span("tk", 0, 128)}, {0: BATCH, 2: span("tv", 0, 128)}),
    )


class Rotary(Projections):
    def __init__(self) -> None:
        super().__init__()
        angle = torch.arange(512)[:, None] * 10000.0 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
        self.register_buffer("cos", torch.cat([angle, angle], -1).cos())
        self.register_buffer("sin", torch.cat([angle, angle], -1).sin())

    def turned(self, x, positions):
        first, second = x.chunk(2, -1)
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        return x * cos + torch.cat([-second, first], -1) * sin

    def forward(self, x, positions, past_k, past_v):
        q, k, v = self.qkv(x)
        q, k = self.turned(q, positions), self.turned(k, positions)
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        return self.out(F.scaled_dot_product_attention(q, k, v))


@case("decoders", "kv-cache", "rotary", note="positions of a length declared apart from the tokens'")
def rotary_positions():
    return Live(
        model=Rotary(),
        args=(states(2, 3), torch.arange(5, 8).repeat(2, 1), kept(2, 5), kept(2, 5)),
        spec=({0: BATCH, 1: span("q", 2, 127)}, {0: BATCH, 1: span("p", 2, 127)}, STEP[1], STEP[2]),
    )


class Slots(Projections):
    def forward(self, x, cache_k, cache_v, slots):
        q, k, v = self.qkv(x)
        cache_k, cache_v = cache_k.clone(), cache_v.clone()
        cache_k[:, :, slots] = k
        cache_v[:, :, slots] = v
        return self.out(F.scaled_dot_product_attention(q, cache_k, cache_v))


@case("decoders", "kv-cache", "static", note="index_put into slots")
def cache_slots():
    return Live(
        model=Slots(),
        args=(states(2, 3), kept(2, 16), kept(2, 16), torch.tensor([4, 7, 9])),
        spec=(
            {0: BATCH, 1: span("q", 2, 16)},
            {0: BATCH, 2: span("ck", 16, 256)},
            {0: BATCH, 2: span("cv", 16, 256)},
            {0: span("n", 2, 16)},
        ),
    )


class Beams(Projections):
    def forward(self, x, past_k, past_v, beams):
        q, k, v = self.qkv(x)
        k = torch.cat([past_k.index_select(0, beams), k], 2)
        v = torch.cat([past_v.index_select(0, beams), v], 2)
        return self.out(F.scaled_dot_product_attention(q, k, v))


@case("decoders", "kv-cache", "beams", note="a cache reordered by beams: its batch may differ, the lengths may not")
def beam_reorder():
    return Live(
        model=Beams(),
        args=(states(3, 1), kept(4, 5), kept(4, 5), torch.tensor([0, 3, 1])),
        spec=(
            {0: span("b", 2, 32)},
            {0: span("bk", 4, 32), 2: span("tk")},
            {0: span("bv", 4, 32), 2: span("tv")},
            {0: span("n", 2, 32)},
        ),
    )


class Biased(Projections):
    def forward(self, x, past_k, past_v, bias):
        q, k, v = self.qkv(x)
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=bias))


@case("decoders", "kv-cache", "mask", note="an additive bias over heads, queries and keys")
def attention_bias():
    return Live(
        model=Biased(),
        args=(states(2, 3), kept(2, 5), kept(2, 5), torch.randn(HEADS, 3, 8)),
        spec=(
            {0: BATCH, 1: span("q", 2, 127)},
            STEP[1],
            STEP[2],
            {1: span("rows", 2, 127), 2: span("columns", 4, 382)},
        ),
    )


class Quantized(Projections):
    def forward(self, x, past_k, scale_k, past_v, scale_v):
        q, k, v = self.qkv(x)
        k = torch.cat([past_k.float() * scale_k, k], 2)
        v = torch.cat([past_v.float() * scale_v, v], 2)
        return self.out(F.scaled_dot_product_attention(q, k, v))


@case("decoders", "kv-cache", "int8", note="caches of int8 with a scale for each token")
def quantized_cache():
    codes = [torch.randint(-127, 128, (2, HEADS, 5, WIDTH), dtype=torch.int8) for _ in range(2)]
    scales = [torch.rand(2, HEADS, 5, 1) for _ in range(2)]
    return Live(
        model=Quantized(),
        args=(states(2, 1), codes[0], scales[0], codes[1], scales[1]),
        spec=({0: BATCH}, *({0: BATCH, 2: span(name, 2)} for name in ("tk", "sk", "tv", "sv"))),
    )


class Packed(Projections):
    def forward(self, x, past):
        q, k, v = self.qkv(x)
        k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        return self.out(F.scaled_dot_product_attention(q, k, v)), torch.stack([k, v])


@case("decoders", "kv-cache", note="keys and values in one tensor: nothing to correct")
def packed_cache():
    return Live(
        model=Packed(),
        args=(states(2, 1), torch.stack([kept(2, 5), kept(2, 5)])),
        spec=({0: BATCH}, {1: BATCH, 3: span("t")}),
    )
