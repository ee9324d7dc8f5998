"""A length that is read from a tensor is assumed to be small; a count has an end of its own beside that."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import ExportedProgram, export

OPTIONS = {"assume": {"item": (1, 512), "nonzero": 2}}


class PadMask(nn.Module):
    def forward(self, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        longest = lengths.max().item()
        torch._check(longest >= 0)
        steps = torch.arange(longest)
        return steps[None, :] < lengths[:, None], torch.nonzero(lengths > 4) * 2


def program() -> ExportedProgram:
    return export(PadMask(), (torch.tensor([3, 7, 5]),))
