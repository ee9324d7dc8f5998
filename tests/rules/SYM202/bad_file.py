"""A saved program of a dim that was compared with the example's size keeps a check of it."""

from __future__ import annotations

import io

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Same(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[1] == 12 else x


def program() -> ExportedProgram:
    hints = {0: Dim("batch", min=1, max=7), 1: Dim.AUTO}
    buffer = io.BytesIO()
    torch.export.save(export(Same(), (torch.randn(3, 12),), dynamic_shapes={"x": hints}), buffer)
    buffer.seek(0)
    return torch.export.load(buffer)
