"""Caches that decoders keep in other forms: pages, a rolling buffer, a dict; positions and distances in tables."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from tests.guards.asks import Span, tokens
from tests.guards.decoders import HEADS, MODEL, WIDTH, Projections, kept, span, states
from tests.guards.registry import Live, case

BATCH = Span("b", 1, 16)
CACHE = ({0: BATCH, 2: span("tk")}, {0: BATCH, 2: span("tv")})


class Paged(Projections):
    def forward(self, x, pool_k, pool_v, slots, table):
        q, k, v = self.qkv(x)
        pool_k, pool_v = pool_k.index_put((slots,), k[:, :, 0]), pool_v.index_put((slots,), v[:, :, 0])
        k, v = pool_k[table].transpose(1, 2), pool_v[table].transpose(1, 2)
        return self.out(F.scaled_dot_product_attention(q, k, v)), pool_k, pool_v


@case("decoders", "kv-cache", "paged", note="a slot for each new token, a table of slots for each sequence")
def paged_cache():
    pools = [torch.randn(20, HEADS, WIDTH) for _ in range(2)]
    return Live(
        model=Paged(),
        args=(states(3, 1), *pools, torch.arange(3), torch.randint(0, 4, (3, 5))),
        spec=(
            {0: BATCH},
            {0: span("pk", 4, 64)},
            {0: span("pv", 4, 64)},
            {0: span("n", 1, 16)},
            {0: span("rows", 1, 16), 1: span("t")},
        ),
    )


class Rolling(Projections):
    def forward(self, x, cache_k, cache_v, mask):
        q, k, v = self.qkv(x)
        new = x.shape[1]
        cache_k = torch.cat([cache_k.roll(-new, 2)[:, :, : cache_k.shape[2] - new], k], 2)
        cache_v = torch.cat([cache_v.roll(-new, 2)[:, :, : cache_v.shape[2] - new], v], 2)
        return self.out(F.scaled_dot_product_attention(q, cache_k, cache_v, attn_mask=mask[:, None, None, :])), cache_k


@case("decoders", "kv-cache", "mask", note="a buffer of one length that rolls, its mask declared apart")
def rolling_cache():
    return Live(
        model=Rolling(),
        args=(states(2, 3), kept(2, 12), kept(2, 12), torch.ones(2, 12, dtype=torch.bool)),
        spec=(
            {0: BATCH, 1: span("q", 1, 32)},
            {0: BATCH, 2: span("wk", 4, 128)},
            {0: BATCH, 2: span("wv", 4, 128)},
            {0: BATCH, 1: span("m", 4, 128)},
        ),
    )


class ByName(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Projections() for _ in range(2))

    def forward(self, x, cache):
        new = {}
        for name, layer in zip(cache, self.layers, strict=True):
            q, k, v = layer.qkv(x)
            k, v = torch.cat([cache[name]["k"], k], 2), torch.cat([cache[name]["v"], v], 2)
            x = x + layer.out(F.scaled_dot_product_attention(q, k, v))
            new[name] = {"k": k, "v": v}
        return x, new


@case("decoders", "kv-cache", "layers", note="a dict of dicts")
def cache_by_name():
    return Live(
        model=ByName(),
        args=(states(2, 1), {f"l{i}": {"k": kept(2, 5 + i), "v": kept(2, 5 + i)} for i in range(2)}),
        spec=(
            {0: BATCH},
            {f"l{i}": {name: {0: BATCH, 2: span(f"{name}{i}")} for name in "kv"} for i in range(2)},
        ),
    )


class LearnedPositions(Projections):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(64, MODEL), nn.Embedding(128, MODEL)

    def forward(self, ids, past_k, past_v):
        past = past_k.shape[2]
        x = self.words(ids) + self.places(torch.arange(past, past + ids.shape[1]))
        q, k, v = self.qkv(x)
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        return self.out(F.scaled_dot_product_attention(q, k, v)), k, v


@case("decoders", "kv-cache", "table", note="128 learned positions behind the cache, as GPT-2: no guard says so")
def learned_positions():
    return Live(
        model=LearnedPositions(),
        args=(tokens(2, 3), kept(2, 5), kept(2, 5)),
        spec=({0: BATCH, 1: span("q", 1, 64)}, *CACHE),
    )


class Distances(Projections):
    def __init__(self, most: int = 31) -> None:
        super().__init__()
        self.most, self.bias = most, nn.Embedding(2 * most + 1, HEADS)

    def forward(self, x, past_k, past_v):
        q, k, v = self.qkv(x)
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        every, new = k.shape[2], x.shape[1]
        apart = torch.arange(every)[None] - torch.arange(every - new, every)[:, None]
        bias = self.bias(apart.clamp(min=-self.most) + self.most).permute(2, 0, 1)
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=bias)), k, v


@case("decoders", "kv-cache", "table", note="distances cut at one end only: 32 new tokens at most")
def relative_distances():
    return Live(
        model=Distances(),
        args=(states(2, 3), kept(2, 5), kept(2, 5)),
        spec=({0: BATCH, 1: span("q", 1, 64)}, *CACHE),
    )
