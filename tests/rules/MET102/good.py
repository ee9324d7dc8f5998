"""The module itself asks for float16, so every recorded value is right."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Block(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.to(torch.float16)
        z = torch.relu(y)
        return z * 2


def program() -> ExportedProgram:
    return export(Block(), (torch.randn(3, 8),), dynamic_shapes={"x": {0: Dim("batch", min=1, max=64)}})
