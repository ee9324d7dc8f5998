"""A Dim that the model's reshape cannot take: torch.export refuses it."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim


class Windows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(3, x.shape[1] // 8, 8).amax(2)


def program() -> tuple[object, ...]:
    return Windows(), (torch.randn(3, 16),), {}, {"x": {1: Dim("width", min=8, max=512)}}
