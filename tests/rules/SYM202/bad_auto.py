"""Under Dim.AUTO the export passes, and the pinned dim is seen in the program only."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(12, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table


def program() -> tuple[object, ...]:
    return Positions(), (torch.randn(3, 12, 4),), {}, {"x": {0: Dim("batch", max=64), 1: Dim.AUTO}}
