"""The same model and declaration with an example batch of 2: the fix that SYM202 gives."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.proj(x).softmax(-1)


def model() -> nn.Module:
    return Head().eval()


def program() -> tuple[object, ...]:
    return model(), (torch.randn(2, 8),), {}, {"x": {0: Dim.AUTO(min=1, max=64)}}


def accepted() -> list[tuple[torch.Tensor, ...]]:
    """Inputs that the bad program takes."""
    return [(torch.randn(1, 8),)]
