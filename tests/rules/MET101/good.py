"""The same program as torch.export leaves it."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 32)
        self.down = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.up(x))
        return x + self.down(y)


def program() -> ExportedProgram:
    batch = Dim("batch", min=1, max=64)
    return export(Mlp(), (torch.randn(3, 8),), dynamic_shapes={"x": {0: batch}})
