"""A Dim times 5 beside one times 7: torch compares ``7 / 5 * x == y`` in floats, which 45 and 63 are not."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Beside(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.relu() * 2, y.relu() * 3


def program() -> ExportedProgram:
    n = Dim("n", min=1, max=64)
    return export(Beside(), (torch.randn(15, 5), torch.randn(21, 3)), dynamic_shapes=({0: 5 * n}, {0: 7 * n}))
