"""The same with 16 and 24 inside the range: some sizes break the guard, some do not."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export
from torch.utils._sympy.value_ranges import ValueRanges


class Windows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(3, x.shape[1] // 8, 8).amax(2)


def program() -> ExportedProgram:
    ep = export(Windows(), (torch.randn(3, 16),), dynamic_shapes={"x": {1: Dim.AUTO}})
    (width,) = ep.range_constraints
    ep.range_constraints[width] = ValueRanges(9, 31)
    return ep
