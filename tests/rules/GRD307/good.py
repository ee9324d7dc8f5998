"""The same with the fine height made of the coarse one: the fix that GRD307 gives."""

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
    h2 = Dim("h2", min=2, max=256)
    dims = {"fine": {2: 2 * h2}, "coarse": {2: h2}}
    return model(), (torch.randn(1, 4, 32, 16), torch.randn(1, 4, 16, 8)), {}, dims


def accepted() -> list[tuple[torch.Tensor, ...]]:
    """Inputs in the declared relation: both ends and a prime."""
    return [(torch.randn(1, 4, 2 * h, 16), torch.randn(1, 4, h, 8)) for h in (2, 31, 256)]
