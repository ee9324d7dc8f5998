"""A saved Dim.AUTO export: no name, no upper bound, and the guard kept as text only."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim, export, save


class Halves(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, 0::2] + x[:, 1::2]


def program() -> Path:
    path = Path(tempfile.mkdtemp()) / "model.pt2"
    save(export(Halves(), (torch.randn(3, 16),), dynamic_shapes={"x": {1: Dim.AUTO}}), path)
    return path
