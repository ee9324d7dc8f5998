"""The same relation over ranges that are small enough to try."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Cubes(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        a, b, c = x.shape[0], y.shape[0], z.shape[0]
        torch._check(a * a * a + b * b * b != c * c * c)
        return x.sum() + y.sum() + z.sum()


def program() -> ExportedProgram:
    inputs = (torch.randn(3), torch.randn(4), torch.randn(7))
    small = Dim.AUTO(min=2, max=32)
    return export(Cubes(), inputs, dynamic_shapes=({0: small}, {0: small}, {0: small}))
