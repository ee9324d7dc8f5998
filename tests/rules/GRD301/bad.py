"""An encoder with InstanceNorm and a RAFT-like correlation: the height of its features must be even."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim


class Correlation(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 4, stride=4)
        self.norm = nn.InstanceNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.stem(x[:, :, :-1]))[:, :, :-1]
        even, odd = y[:, :, 0::2], y[:, :, 1::2]
        return (even * odd).sum(1)


def program() -> tuple[object, ...]:
    return Correlation().eval(), (torch.randn(1, 3, 144, 64),), {}, {"x": {2: Dim("h", min=135, max=2160)}}
