"""A condition on a power of a size that is no root of it: not an integer expression."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Grid(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = x.shape[1] ** 0.75
        scale = 1.0 if weight < 120.5 else 0.5
        return x * scale


def program() -> ExportedProgram:
    return export(Grid(), (torch.randn(2, 64, 4),), dynamic_shapes={"x": {1: Dim.AUTO(min=4, max=1024)}})
