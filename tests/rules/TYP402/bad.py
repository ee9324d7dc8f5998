"""A numpy constant brings float64 into every layer: one line, one finding."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Layer(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.full((4,), np.sqrt(2.0), dtype=torch.float64)
        return (x * scale).float()


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def program() -> ExportedProgram:
    return export(Tower(), (torch.randn(3, 4),), dynamic_shapes={"x": {0: Dim("batch", min=1, max=64)}})
