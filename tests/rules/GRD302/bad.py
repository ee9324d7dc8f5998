"""Two inputs that are added, each with a batch of its own."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim


class AddTwo(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + y


def model() -> nn.Module:
    return AddTwo()


def program() -> tuple[object, ...]:
    dims = {"x": {0: Dim("a", min=2, max=64)}, "y": {0: Dim("b", min=2, max=64)}}
    return model(), (torch.randn(3, 4), torch.randn(3, 4)), {}, dims
