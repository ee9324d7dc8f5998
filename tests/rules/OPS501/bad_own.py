"""An op of another package between two engines, with a kernel of its own: what it costs, and what to write."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


@torch.library.custom_op("trtdiag_rules_own::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


@scaled.register_fake
def _(x: torch.Tensor, by: float) -> torch.Tensor:
    return torch.empty_like(x)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Linear(8, 8)
        self.after = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.before(x)) * 2 - x + 1
        y = scaled(y, 0.5)
        return torch.relu(self.after(y)) * 2 - x + 1


def program() -> ExportedProgram:
    return export(Model(), (torch.randn(3, 8),), dynamic_shapes={"x": {0: Dim("batch", min=1, max=64)}})
