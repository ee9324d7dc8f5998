"""The range of a symbol got lost on the way: a pass rebuilt the program and kept one range only."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Scale(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x * 2], dim=0)


def program() -> ExportedProgram:
    dims = {"x": {0: Dim("batch", min=1, max=64), 1: Dim("width", min=2, max=32)}}
    ep = export(Scale(), (torch.randn(3, 5),), dynamic_shapes=dims)
    width = next(symbol for symbol, allowed in ep.range_constraints.items() if allowed.upper == 32)
    del ep.range_constraints[width]
    return ep
