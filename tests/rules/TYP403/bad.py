"""Rotary embedding with complex numbers."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Rotary(nn.Module):
    def forward(self, q: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
        turn = torch.polar(torch.ones_like(angle), angle)
        pairs = torch.view_as_complex(q.unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * turn).flatten(-2)


def program() -> ExportedProgram:
    seq = Dim("seq", min=2, max=256)
    return export(Rotary(), (torch.randn(5, 8), torch.randn(5, 4)), dynamic_shapes={"q": {0: seq}, "angle": {0: seq}})
