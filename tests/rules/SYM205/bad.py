"""64 images of 2160 x 4096 with 32 channels: 18 billion elements, each range plausible alone."""

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
    dims = {"x": {0: Dim("batch", min=1, max=64), 2: Dim("h", min=16, max=2160), 3: Dim("w", min=16, max=4096)}}
    return export(Stem(), (torch.randn(2, 3, 32, 48),), dynamic_shapes=dims)
