"""A guard that holds for every declared size, which torch.export cannot prove."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim


class Spectrum(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stft(x, 64, 16, window=torch.ones(64), return_complex=True).abs()


def program() -> tuple[object, ...]:
    return Spectrum(), (torch.randn(2, 640),), {}, {"x": {1: Dim("t", min=64, max=16000)}}
