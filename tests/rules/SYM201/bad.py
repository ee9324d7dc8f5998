"""The sequence has a name and no largest size; the batch has one."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class TwoLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 16)
        self.second = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(torch.relu(self.first(x)))
        return torch.cat([y, y], dim=1)


def program() -> ExportedProgram:
    dims = {"x": {0: Dim("batch", min=1, max=10), 1: Dim("seq", min=2)}}
    return export(TwoLinear(), (torch.randn(3, 5, 4),), dynamic_shapes=dims)
