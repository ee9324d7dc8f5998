"""A Dim that says what the reshape needs."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim


class Windows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(3, x.shape[1] // 8, 8).amax(2)


def program() -> tuple[object, ...]:
    return Windows(), (torch.randn(3, 16),), {}, {"x": {1: 8 * Dim("_width", min=1, max=64)}}
