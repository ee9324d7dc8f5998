"""A hash constant beyond int32, token ids of any size, and positions that are shown to fit; for TensorRT 8.6."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export

OPTIONS = {"target": "8.6"}


class Hashed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("multiplier", torch.tensor([6364136223846793005]))
        self.table = nn.Embedding(64, 8)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        bucket = (ids * self.multiplier) % 64
        positions = torch.arange(ids.shape[1])
        return self.table(bucket) + positions[None, :, None]


def program() -> ExportedProgram:
    dims = {"ids": {0: Dim("batch", min=1, max=8), 1: Dim("seq", min=2, max=256)}}
    return export(Hashed(), (torch.randint(0, 64, (3, 5)),), dynamic_shapes=dims)
