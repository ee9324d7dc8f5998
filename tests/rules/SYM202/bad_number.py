"""A window of as many samples as the example has, and a loop over as many channels."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim


class Windowed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        window = torch.hann_window(x.shape[1])
        rows = []
        for index in range(x.shape[0]):
            rows.append(x[index] * window)
        return torch.stack(rows)


def program() -> tuple[object, ...]:
    samples = Dim("samples", min=2, max=1021)
    return Windowed(), (torch.randn(3, 47),), {}, {"x": {0: Dim("channels", min=2, max=7), 1: samples}}
