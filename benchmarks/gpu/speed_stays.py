"""Models of ``benchmarks/gpu/speed.py`` of which ops stay with PyTorch beside engines, and models of the zoo.

    python benchmarks/gpu/speed.py --models detector,rotary,zoo:demucs_like --variants ours,auto

``zoo:NAME`` is a model of ``tests/models``; those with keyword arguments are none of these.
``tv:NAME`` is a classifier of torchvision with images of 224 pixels.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

SCORE = 0.5
"""Of about half of the places with random weights."""
MOST_KEPT = 256
OVERLAP = 0.5


class Detector(nn.Module):
    """A backbone, a head with boxes and a score for each place, and the suppression of boxes that overlap.

    Data decides how many boxes are above the score, so what is behind that stays with PyTorch.
    """

    def __init__(self, backbone: Any, given: int, width: int) -> None:
        super().__init__()
        self.stem, self.pool, self.blocks = backbone.stem, backbone.pool, backbone.blocks
        self.head = nn.Sequential(nn.Conv2d(given, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, 5, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = self.head(self.blocks(self.pool(self.stem(x)))).permute(0, 2, 3, 1).reshape(-1, 5).float()
        scores = y[:, 4].sigmoid()
        low, size = y[:, 0:2].sigmoid(), y[:, 2:4].sigmoid() / 4
        boxes = torch.cat([low - size, low + size], 1)
        kept = (scores > SCORE).nonzero()[:, 0]
        scores, boxes = scores[kept], boxes[kept]
        order = torch.argsort(scores, descending=True, stable=True)[:MOST_KEPT]
        scores, boxes = scores[order], boxes[order]
        corner, other = boxes[:, None, :2].maximum(boxes[None, :, :2]), boxes[:, None, 2:].minimum(boxes[None, :, 2:])
        shared = (other - corner).clamp(min=0).prod(2)
        area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        overlap = (shared / (area[:, None] + area[None, :] - shared)).triu(1)
        decay = torch.exp(-((overlap.amax(0) / OVERLAP) ** 2))
        return boxes, scores * decay, torch.cumsum(scores * decay, 0) / torch.cumsum(torch.ones_like(scores), 0)


class Rotary(nn.Module):
    """Layers of attention whose angles are made in float64, as in some diffusion transformers: TensorRT has none."""

    def __init__(self, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(depth))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.wide = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(depth)
        )

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        batch, steps, width = x.shape
        rates = 1e4 ** (-torch.arange(0, self.size, 2, dtype=torch.float64, device=x.device) / self.size)
        angles = places.double()[:, :, None] * rates
        cos, sin = angles.cos().to(x.dtype)[:, None], angles.sin().to(x.dtype)[:, None]
        for index, (qkv, out, wide) in enumerate(zip(self.qkv, self.out, self.wide, strict=True)):
            y = qkv(self.norms[2 * index](x)).reshape(batch, steps, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
            q, k, v = _turned(y[0], cos, sin), _turned(y[1], cos, sin), y[2]
            y = nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + out(y.transpose(1, 2).reshape(batch, steps, width))
            x = x + wide(self.norms[2 * index + 1](x))
        return x


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


@dataclass(frozen=True)
class ZooCase:
    """A model of the zoo, as ``speed_models.Case``."""

    module: nn.Module
    args: tuple[Tensor, ...]
    dynamic_shapes: Any
    names: tuple[str, ...] = ()

    def dims(self) -> Any:
        """``dynamic_shapes`` for ``torch.export``."""
        return self.dynamic_shapes

    def ends(self, name: str) -> Any:
        """No profile for an ONNX file."""
        raise ValueError(f"{name}: models of the zoo are not written as ONNX files")


def zoo_case(name: str) -> ZooCase:
    """A model of the zoo by its name there."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.models.zoo import build

    module, args, kwargs, dynamic_shapes = build(name)
    if kwargs:
        raise ValueError(f"{name} has keyword arguments")
    return ZooCase(module.eval(), args, dynamic_shapes)


def torchvision_case(name: str) -> ZooCase:
    """A classifier of torchvision by its name there, its norms used to the example; its batch is dynamic."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.models.asks import torchvision_model
    from tests.models.initialization import gather_statistics
    from tests.models.torchvision_ops import declare_missing_ops

    declare_missing_ops()
    module, args = torchvision_model(name)(weights=None).eval(), (torch.randn(8, 3, 224, 224),)
    with torch.no_grad():
        gather_statistics(module, args, {})
    return ZooCase(module, args, ({0: torch.export.Dim("batch", min=1, max=256)},))
