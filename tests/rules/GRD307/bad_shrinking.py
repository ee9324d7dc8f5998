"""Two pieces that fill a buffer of 32: one shrinks as the other grows, which no Dim can say."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim


class Fill(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(32))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y], 1) * self.weight


def program() -> tuple[object, ...]:
    dims = {"x": {1: Dim("left", min=1, max=31)}, "y": {1: Dim("right", min=1, max=31)}}
    return Fill(), (torch.randn(1, 12), torch.randn(1, 20)), {}, dims
