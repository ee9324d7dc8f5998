"""Ranges whose product stays below the limit."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Stem(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 32, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x)).mean((2, 3))


def program() -> ExportedProgram:
    dims = {"x": {0: Dim("batch", min=1, max=4), 2: Dim("h", min=16, max=2160), 3: Dim("w", min=16, max=1920)}}
    return export(Stem(), (torch.randn(2, 3, 32, 48),), dynamic_shapes=dims)
