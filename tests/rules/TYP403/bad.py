"""A spectrum over the whole of an input, whose length decides how many points it has."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Power(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft(x.tanh())
        return (spectrum * 2).abs().square()


def program() -> ExportedProgram:
    seq = Dim("seq", min=3, max=4096)
    return export(Power(), (torch.randn(5, 8),), dynamic_shapes={"x": {1: seq}})
