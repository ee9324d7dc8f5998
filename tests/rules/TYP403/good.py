"""The same with real numbers."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Rotary(nn.Module):
    def forward(self, q: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
        even, odd = q.unflatten(-1, (-1, 2)).unbind(-1)
        cos, sin = angle.cos(), angle.sin()
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


def program() -> ExportedProgram:
    seq = Dim("seq", min=2, max=256)
    return export(Rotary(), (torch.randn(5, 8), torch.randn(5, 4)), dynamic_shapes={"q": {0: seq}, "angle": {0: seq}})
