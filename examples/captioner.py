"""An image captioner exported the quick way, with ``Dim.AUTO`` everywhere: the model of ``make demo``.

It exports without a complaint, and then: batch and width have no upper bound, so no optimization profile can be
made; the image encoder refuses half of the sizes that the ranges allow; a Python branch became a bound of the height;
positions are computed in float64.

    trtdiag analyze examples.captioner:build
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

MOST_TOKENS = 128


class ImageEncoder(nn.Module):
    """Image (B, 3, H, W) to one vector for each 8x8 patch."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.norm = nn.InstanceNorm2d(width)
        self.coarse = nn.Conv2d(width, width, 3, padding=1)
        self.patch = nn.Conv2d(width, width, 8, stride=8)

    def forward(self, image: Tensor) -> Tensor:
        x = self.norm(self.stem(image)).relu()
        if x.shape[2] > 512:  # tall images are halved; the export keeps the side that its example took
            x = F.avg_pool2d(x, 2)
        coarse = self.coarse(F.avg_pool2d(x, 2))
        x = x + F.interpolate(coarse, scale_factor=2.0)
        return self.patch(x).flatten(2).transpose(1, 2)


class Positions(nn.Module):
    """Sine positions, computed in float64 for accuracy, plus a learned table."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(MOST_TOKENS, width) * 0.02)
        rates = torch.exp(-math.log(10000.0) * torch.arange(0, width, 2, dtype=torch.float64) / width)
        self.register_buffer("rates", rates)

    def forward(self, length: int) -> Tensor:
        angle = torch.arange(length, dtype=torch.float64)[:, None] * self.rates
        return torch.cat([angle.sin(), angle.cos()], -1).float() + self.table[:length]


class DecoderBlock(nn.Module):
    """Self-attention over the tokens, attention to the image, and a feed-forward layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.query, self.cross_query = nn.Linear(width, width), nn.Linear(width, width)
        self.key_value, self.cross_key_value = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attend(self, query: Tensor, key_value: Tensor, mask: Tensor | None) -> Tensor:
        split = (query, *key_value.chunk(2, -1))
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in split)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)

    def forward(self, x: Tensor, image: Tensor, mask: Tensor) -> Tensor:
        y = self.norms[0](x)
        x = x + self.attend(self.query(y), self.key_value(y), mask)
        x = x + self.attend(self.cross_query(self.norms[1](x)), self.cross_key_value(image), None)
        return x + self.feed(self.norms[2](x))


class Captioner(nn.Module):
    """An image, tokens (B, T) and their padding mask (B, T) to scores of each next token (B, T, vocabulary)."""

    def __init__(self, width: int = 32, heads: int = 4, blocks: int = 2, vocabulary: int = 500) -> None:
        super().__init__()
        self.image_encoder = ImageEncoder(width)
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = Positions(width)
        self.blocks = nn.ModuleList(DecoderBlock(width, heads) for _ in range(blocks))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, image: Tensor, tokens: Tensor, padding: Tensor) -> Tensor:
        length = tokens.shape[1]
        seen = self.image_encoder(image)
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        mask = causal & padding.bool()[:, None, None, :]
        x = self.embedding(tokens) + self.positions(length)
        for block in self.blocks:
            x = block(x, seen, mask)
        return self.head(x)


def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]:
    """The model, its example inputs, and ``Dim.AUTO`` for batch, image size and number of tokens."""
    args = (torch.rand(2, 3, 96, 128), torch.randint(0, 500, (2, 12)), torch.ones(2, 12, dtype=torch.int64))
    text = {0: Dim.AUTO, 1: Dim.AUTO}
    dims = {"image": {0: Dim.AUTO, 2: Dim.AUTO, 3: Dim.AUTO}, "tokens": text, "padding": text}
    return Captioner().eval(), args, {}, dims
