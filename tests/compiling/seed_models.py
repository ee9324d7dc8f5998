"""The models that compiling is shown with: a decoder, a U-Net, an encoder with instance norm, wide types."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from tests.compiling.programs import Asked


class RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class DecoderLayer(nn.Module):
    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * groups * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        b, s, _ = x.shape
        y = self.norm1(x)
        q = self.q(y).view(b, s, self.heads, self.size).transpose(1, 2)
        k, v = self.kv(y).view(b, s, 2, self.groups, self.size).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = _rotated(q, cos, sin), _rotated(k, cos, sin)
        k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        times = self.heads // self.groups
        keys, values = (t.repeat_interleave(times, 1) for t in (k, v))
        seen = torch.ones(s, k.shape[2], dtype=torch.bool).tril(k.shape[2] - s)
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=seen)
        x = x + self.o(y.transpose(1, 2).reshape(b, s, -1))
        z = self.norm2(x)
        return x + self.down(F.silu(self.gate(z)) * self.up(z)), torch.stack([k, v])


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class Decoder(nn.Module):
    """Llama-like: rotary positions, grouped keys, a cache of one step, so that sizes of ``seq + 1`` appear."""

    def __init__(self, layers: int = 2, width: int = 32, heads: int = 4, groups: int = 2, words: int = 101) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(DecoderLayer(width, heads, groups) for _ in range(layers))
        self.norm = RmsNorm(width)
        self.groups, self.size = groups, width // heads

    def forward(self, tokens: Tensor) -> tuple[Tensor, list[Tensor]]:
        b, s = tokens.shape
        x = self.embed(tokens)
        steps = torch.arange(1, s + 1, dtype=torch.float32)
        angles = torch.outer(steps, 1.0 / 10000 ** (torch.arange(0, self.size, 2) / self.size))
        cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
        caches = []
        for layer in self.layers:
            past = x.new_zeros(2, b, self.groups, 1, self.size)
            x, cache = layer(x, cos, sin, past)
            caches.append(cache)
        return self.norm(x) @ self.embed.weight.T, caches


class UNet(nn.Module):
    """Skips joined at odd sizes by interpolation, and an end that shuffles pixels."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, 2, 1)
        self.second = nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.deep = nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.norm = nn.GroupNorm(4, 2 * width)
        self.join = nn.Conv2d(3 * width, width, 3, padding=1)
        self.end = nn.Conv2d(width, 3 * 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        a = F.relu(self.first(x))
        b = F.silu(self.norm(self.deep(F.relu(self.second(a)))))
        up = F.interpolate(b, size=a.shape[-2:], mode="bilinear", align_corners=False)
        y = F.pixel_shuffle(self.end(F.relu(self.join(torch.cat([a, up], 1)))), 2)
        return F.interpolate(y, size=x.shape[-2:], mode="nearest") + x


class InstanceNormEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3), nn.InstanceNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 12, 3, 2, 1), nn.InstanceNorm2d(12, affine=True), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class WideTypes(nn.Module):
    """int64 and float64 as inputs, constants and outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(40, dtype=torch.float64).reshape(10, 4) / 7)
        self.register_buffer("order", torch.tensor([3, 1, 0, 2]))

    def forward(self, index: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        picked = self.table[index][:, self.order]
        y = torch.tanh(picked * x + 0.5) * 2.0 - x
        return y, index.clamp(0, 9) * 2 + 1


def decoder() -> Asked:
    torch.manual_seed(0)
    # torch refuses a named Dim here: it cannot see that seq + 1 is never 1.
    dims = {"tokens": {0: Dim("batch", min=1, max=4), 1: Dim.DYNAMIC(min=2, max=64)}}
    return Decoder().eval(), (torch.randint(0, 101, (2, 13)),), {}, dims


def unet() -> Asked:
    torch.manual_seed(0)
    dims = {"x": {2: Dim("h", min=200, max=400), 3: Dim("w", min=200, max=400)}}
    return UNet().eval(), (torch.randn(1, 3, 224, 256),), {}, dims


def instance_norm() -> Asked:
    torch.manual_seed(0)
    dims = {"x": {0: Dim("b", min=1, max=3), 2: Dim("h", min=32, max=97), 3: Dim("w", min=32, max=101)}}
    return InstanceNormEncoder().eval(), (torch.randn(2, 3, 40, 48),), {}, dims


def linear() -> Asked:
    torch.manual_seed(0)
    return nn.Linear(5, 7).eval(), (torch.randn(4, 5),), {}, {"input": {0: Dim("b", min=1, max=64)}}


def wide_types() -> Asked:
    torch.manual_seed(0)
    dims = {"index": {0: Dim("n", min=2, max=17)}, "x": {0: Dim("n", min=2, max=17)}}
    return WideTypes().eval(), (torch.randint(0, 10, (5,)), torch.randn(5, 4, dtype=torch.float64)), {}, dims
