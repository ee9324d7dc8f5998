"""Small models that between them use most kinds of layers; each has dynamic sizes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

SEEDS = ("mlp", "conv", "transformer", "indices")
Asked = tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(F.gelu(self.first(x))).softmax(-1)


class Conv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.SiLU(), nn.MaxPool2d(2, 1))
        self.block = nn.Sequential(nn.Conv2d(8, 8, 3, 1, 1, groups=4), nn.GroupNorm(2, 8), nn.InstanceNorm2d(8))
        self.up = nn.ConvTranspose2d(8, 4, 2, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.stem(x)
        y = F.relu(self.block(y) + y)
        large = F.interpolate(self.up(y), scale_factor=2.0, mode="bilinear", align_corners=False)
        return large, F.avg_pool2d(y, (2, 3), 1).mean((2, 3))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(31, 16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.norm, self.last = nn.LayerNorm(16), nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        batch, steps, _ = x.shape
        q, k, v = (y.view(batch, steps, 4, 4).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, steps, 16))
        return x + self.down(F.gelu(self.up(self.last(x)), approximate="tanh"))


class Indices(nn.Module):
    def forward(self, x: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        best, where = x.topk(3, dim=1)
        picked = x.gather(1, at)
        placed = torch.zeros_like(x).scatter(1, at, picked)
        steps = torch.arange(x.shape[1], device=x.device)
        late = torch.where(steps[None] >= x.shape[1] // 2, x, -x)
        return best, where, placed, late.amax(1), x.cumsum(1), torch.cat([x.sum(1), x.prod(1)]), (x > 0).sum(1)


def seeds() -> dict[str, Asked]:
    """Each model in eval mode with its example, its keyword arguments and its dims."""
    torch.manual_seed(0)
    batch, steps = Dim("batch", min=1, max=5), Dim("steps", min=2, max=17)
    high, wide = Dim("high", min=9, max=33), Dim("wide", min=11, max=31)
    return {
        "mlp": (Mlp().eval(), (torch.randn(3, 4, 5),), {}, {"x": {0: batch, 1: steps}}),
        "conv": (Conv().eval(), (torch.randn(2, 3, 17, 13),), {}, {"x": {0: batch, 2: high, 3: wide}}),
        "transformer": (
            Transformer().eval(),
            (torch.randint(0, 31, (2, 7)),),
            {},
            {"ids": {0: batch, 1: steps}},
        ),
        "indices": (
            Indices().eval(),
            (torch.randn(2, 11), torch.stack([torch.randperm(11)[:5] for _ in range(2)])),
            {},
            {"x": {0: batch, 1: Dim("length", min=7, max=29)}, "at": {0: batch}},
        ),
    }
