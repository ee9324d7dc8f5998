"""Two kinds of ops between the blocks: one costs two engines, the other none by itself."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Block(nn.Module):
    """Seven ops that compute: worth an engine."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(torch.relu(self.first(x)))
        return torch.relu(x + y * 2) - x


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks[0](x)
        x = torch.cummax(x, 1).values
        x = self.blocks[1](x)
        x = torch.cummax(x, 1).values
        x = self.blocks[2](x)
        return torch.cummin(x, 1).values


def program() -> ExportedProgram:
    return export(Model(), (torch.randn(3, 8),), dynamic_shapes={"x": {0: Dim("batch", min=1, max=64)}})
