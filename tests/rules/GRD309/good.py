"""No branch, an assertion that says what is meant, and a smallest size that a convolution needs."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim


class Convolves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.shape[3] <= 1024
        return torch.relu(self.conv(x))


def program() -> tuple[object, ...]:
    return Convolves(), (torch.randn(1, 3, 64, 80),), {}, {"x": {2: Dim.AUTO, 3: Dim.AUTO}}
