"""Padding without a branch, and a branch that goes the same way for every declared size."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F


class PadAlways(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > 1024:
            x = x[:, :1024]
        x = F.pad(x, (0, -x.shape[1] % 16))
        return x.cos()


def program() -> tuple[object, ...]:
    return PadAlways(), (torch.randn(3, 48),), {}, {"x": {0: Dim("batch", max=8), 1: Dim("seq", min=16, max=512)}}
