"""A derived Dim that is too weak: torch.export never compares guards with the range of such a dim and passes."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim


class Windows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, 0::4] * x[:, 1::4] * x[:, 3::4]


def program() -> tuple[object, ...]:
    return Windows(), (torch.randn(3, 16),), {}, {"x": {1: 2 * Dim("_width", min=4, max=256)}}
