"""The other end: short inputs would be padded, and the example is long; a table caps the other dim."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim


class Pads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(96, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] < 17:
            x = F.pad(x, (0, 17))
        return x + self.table[: x.shape[0]]


def program() -> tuple[object, ...]:
    return Pads(), (torch.randn(5, 31),), {}, {"x": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}}
