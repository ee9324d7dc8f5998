"""A log-mel front end: a short-time Fourier transform of a fixed window, at any length of the sound."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class LogMel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(400))
        self.register_buffer("mel", torch.rand(201, 80))

    def forward(self, audio: torch.Tensor) -> torch.Tensor:
        spectrum = torch.stft(audio, 400, 160, window=self.window, return_complex=True)
        return (spectrum.abs().square().mT @ self.mel).clamp(min=1e-10).log10()


def program() -> ExportedProgram:
    batch, length = Dim("batch", min=1, max=8), Dim("length", min=400, max=480_000)
    return export(LogMel(), (torch.randn(3, 4000),), dynamic_shapes={"audio": {0: batch, 1: length}})
