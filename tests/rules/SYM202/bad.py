"""The example has a batch of 1, so torch.export keeps the 1."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.proj(x).softmax(-1)


def model() -> nn.Module:
    return Head().eval()


def program() -> tuple[object, ...]:
    return model(), (torch.randn(1, 8),), {}, {"x": {0: Dim.AUTO(min=1, max=64)}}
