"""A small model for tests of bench, as a factory that the command line can name."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, x: Tensor, *, scale: Tensor) -> dict[str, Tensor]:
        y = torch.relu(self.first(x)) * scale
        return {"y": self.second(y)}


def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]:
    """Batch 1..9, even steps 4..34."""
    torch.manual_seed(0)
    steps = 2 * Dim("_steps", min=2, max=17)
    dims = {"x": {0: Dim("batch", min=1, max=9), 1: steps}, "scale": {}}
    return Small().eval(), (torch.randn(4, 6, 5),), {"scale": torch.tensor(2.0)}, dims
