"""A length is read from a tensor and nothing bounds it."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import ExportedProgram, export


class PadMask(nn.Module):
    def forward(self, lengths: torch.Tensor) -> torch.Tensor:
        longest = lengths.max().item()
        torch._check(longest >= 0)
        steps = torch.arange(longest)
        return steps[None, :] < lengths[:, None]


def program() -> ExportedProgram:
    return export(PadMask(), (torch.tensor([3, 7, 5]),))
