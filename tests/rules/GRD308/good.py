"""The same with one Dim for both: the fix that GRD308 gives."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim
from torch.nn.functional import scaled_dot_product_attention


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(32, 64)
        self.out = nn.Linear(32, 32)

    def forward(self, x: torch.Tensor, past_k: torch.Tensor, past_v: torch.Tensor) -> torch.Tensor:
        q = x.view(1, 1, 4, 8).transpose(1, 2)
        k, v = self.project(x).view(1, 1, 2, 4, 8).unbind(2)
        k = torch.cat([past_k, k.transpose(1, 2)], 2)
        v = torch.cat([past_v, v.transpose(1, 2)], 2)
        attended = scaled_dot_product_attention(q, k, v)
        return torch.relu(self.out(attended.transpose(1, 2).reshape(1, 1, 32)))


def model() -> nn.Module:
    return Decoder().eval()


def program() -> tuple[object, ...]:
    k = Dim("k", min=2, max=64)
    dims = {"x": None, "past_k": {2: k}, "past_v": {2: k}}
    return model(), (torch.randn(1, 1, 32), torch.randn(1, 4, 6, 8), torch.randn(1, 4, 6, 8)), {}, dims


def accepted() -> list[tuple[torch.Tensor, ...]]:
    """Caches of one length, which is all that attention takes: both ends and a prime."""
    return [(torch.randn(1, 1, 32), torch.randn(1, 4, n, 8), torch.randn(1, 4, n, 8)) for n in (2, 31, 64)]
