"""A saved program keeps the condition and not the line; a dim that was compared for equality is seen as well."""

from __future__ import annotations

import io

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Halves(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :30] if x.shape[1] > 30 else x * 2


def program() -> ExportedProgram:
    hints = {0: Dim("batch", min=1, max=7), 1: Dim.AUTO}
    buffer = io.BytesIO()
    torch.export.save(export(Halves(), (torch.randn(3, 11),), dynamic_shapes={"x": hints}), buffer)
    buffer.seek(0)
    return torch.export.load(buffer)
