"""Small blocks that are quantized: what TensorRT fuses Quantize and Dequantize into."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

Asked = tuple[nn.Module, tuple[Any, ...], Any]


class Residual(nn.Module):
    """Convolutions with batch norms, of which one is added to what it was made of."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.Conv2d(3, channels, 3, 2, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU())
        self.one = nn.Sequential(nn.Conv2d(channels, channels, 3, 1, 1), nn.BatchNorm2d(channels), nn.ReLU())
        self.two = nn.Conv2d(channels, channels, 1)
        self.head = nn.Linear(channels, 10)

    def forward(self, x: Tensor) -> Tensor:
        y = self.enter(x)
        y = F.relu(self.two(self.one(y)) + y)
        return self.head(y.mean((2, 3)))


class Wide(nn.Module):
    """Two linear layers with GELU and a norm."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Attending(nn.Module):
    """Attention with quantized projections."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def blocks() -> dict[str, Asked]:
    """By name: the module, its example, ``dynamic_shapes``."""
    torch.manual_seed(11)
    batch, high, steps = Dim("batch", min=1, max=8), Dim("high", min=9, max=64), Dim("steps", min=1, max=128)
    made: dict[str, Asked] = {
        "residual": (Residual(), (torch.randn(3, 3, 33, 32),), {"x": {0: batch, 2: high}}),
        "wide": (Wide(), (torch.randn(3, 17, 64),), {"x": {0: batch, 1: steps}}),
        "attending": (Attending(), (torch.randn(3, 17, 64),), {"x": {0: batch, 1: steps}}),
    }
    for module, _, _ in made.values():
        module.eval()
    return made
