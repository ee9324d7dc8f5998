"""The same with the largest length stated."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import ExportedProgram, export


class PadMask(nn.Module):
    def forward(self, lengths: torch.Tensor) -> torch.Tensor:
        longest = lengths.max().item()
        torch._check(longest >= 0)
        torch._check(longest <= 512)
        steps = torch.arange(longest)
        return steps[None, :] < lengths[:, None]


def program() -> ExportedProgram:
    return export(PadMask(), (torch.tensor([3, 7, 5]),))
