"""The same over frames that are transformed before the model."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class LogMel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mel", torch.rand(201, 80))

    def forward(self, power: torch.Tensor) -> torch.Tensor:
        return (power.mT @ self.mel).clamp(min=1e-10).log10()


def program() -> ExportedProgram:
    frames = Dim("frames", min=1, max=3000)
    return export(LogMel(), (torch.rand(2, 201, 25),), dynamic_shapes={"power": {2: frames}})
