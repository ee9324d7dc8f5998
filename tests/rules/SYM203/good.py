"""Every symbol has its range, the unbacked one included."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Scale(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = x[x.sum(1) > 0]
        return torch.cat([kept, kept * 2], dim=0)


def program() -> ExportedProgram:
    dims = {"x": {0: Dim("batch", min=1, max=64), 1: Dim("width", min=2, max=32)}}
    return export(Scale(), (torch.randn(3, 5),), dynamic_shapes=dims)
