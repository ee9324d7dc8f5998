"""Padding only when it is needed: the example needs none, so no padding is in the program."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F


class PadIfNeeded(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] % 16 != 0:
            x = F.pad(x, (0, 16 - x.shape[1] % 16))
        return x.cos()


def program() -> tuple[object, ...]:
    return PadIfNeeded(), (torch.randn(3, 48),), {}, {"x": {0: Dim("batch", max=8), 1: Dim("seq", min=16, max=512)}}
