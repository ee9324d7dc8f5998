"""The same with what the program says by itself: nothing is assumed."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import ExportedProgram, export

OPTIONS = {"assume": {"item": (0, 512), "nonzero": 3}}


class PadMask(nn.Module):
    def forward(self, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        longest = lengths.max().item()
        torch._check(longest >= 0)
        torch._check(longest <= 512)
        steps = torch.arange(longest)
        return steps[None, :] < lengths[:, None], torch.nonzero(lengths > 4) * 2


def program() -> ExportedProgram:
    return export(PadMask(), (torch.tensor([3, 7, 5]),))
