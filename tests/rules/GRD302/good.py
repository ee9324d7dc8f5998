"""The same with one Dim for both: the fix that GRD302 gives."""

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
    a = Dim("a", min=2, max=64)
    return model(), (torch.randn(3, 4), torch.randn(3, 4)), {}, {"x": {0: a}, "y": {0: a}}


def accepted() -> list[tuple[torch.Tensor, ...]]:
    """Inputs of equal sizes, which is all that the model takes in the range: both ends and a prime."""
    return [(torch.randn(n, 4), torch.randn(n, 4)) for n in (2, 31, 64)]
