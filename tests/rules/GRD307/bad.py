"""A fine and a coarse map that are added after upsampling, each with a height of its own."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F


class Merge(nn.Module):
    def forward(self, fine: torch.Tensor, coarse: torch.Tensor) -> torch.Tensor:
        return fine + F.interpolate(coarse, scale_factor=2.0)


def model() -> nn.Module:
    return Merge()


def program() -> tuple[object, ...]:
    dims = {"fine": {2: Dim("h1", min=4, max=512)}, "coarse": {2: Dim("h2", min=2, max=512)}}
    return model(), (torch.randn(1, 4, 32, 16), torch.randn(1, 4, 16, 8)), {}, dims
