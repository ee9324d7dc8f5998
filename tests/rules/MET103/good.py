"""Every op keeps the stack that torch.export recorded; sizes computed by export need none."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, z = torch.relu(self.proj(x)).split(2, dim=-1)
        return torch.cat([y, z], -1).reshape(x.shape[0] * x.shape[1], 4)


def program() -> ExportedProgram:
    dims = {"x": {0: Dim("batch", min=1, max=8), 1: Dim("seq", min=2, max=128)}}
    return export(Layer(), (torch.randn(3, 5, 4),), dynamic_shapes=dims)
