"""Attention scores of 4 sequences of 1024: less than 1 GiB."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Scores(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-1, -2)
        return scores.softmax(-1).amax(-1)


def program() -> ExportedProgram:
    batch, seq = Dim("batch", min=1, max=4), Dim("seq", min=2, max=1024)
    dims = {"q": {0: batch, 2: seq}, "k": {0: batch, 2: seq}}
    return export(Scores(), (torch.randn(3, 12, 5, 16), torch.randn(3, 12, 5, 16)), dynamic_shapes=dims)
