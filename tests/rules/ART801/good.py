"""A file that the running torch wrote."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim, export, save


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.proj(x))


def program() -> Path:
    path = Path(tempfile.mkdtemp()) / "model.pt2"
    save(export(Mlp(), (torch.randn(3, 8),), dynamic_shapes={"x": {0: Dim("batch", min=1, max=64)}}), path)
    return path


def accepted() -> list[tuple[torch.Tensor, ...]]:
    """Inputs that the old file takes: both ends of the range and a prime."""
    return [(torch.randn(n, 8),) for n in (1, 31, 64)]
