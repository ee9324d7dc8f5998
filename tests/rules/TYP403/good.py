"""The same over a fixed number of points, and complex numbers that are pairs of real ones inside engines."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Power(nn.Module):
    def forward(self, x: torch.Tensor, angle: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        spectrum = torch.fft.rfft(x.tanh())
        turn = torch.polar(torch.ones_like(angle), angle)
        return (spectrum * 2).abs().square(), torch.view_as_real(spectrum[..., :4] * turn)


def program() -> ExportedProgram:
    batch = Dim("batch", min=1, max=16)
    example = (torch.randn(5, 16), torch.randn(5, 4))
    return export(Power(), example, dynamic_shapes={"x": {0: batch}, "angle": {0: batch}})
