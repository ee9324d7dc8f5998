"""An example of 80 decides a Python condition, and Dim.AUTO takes the cap without a word."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim


class Shrinks(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[3] > 1024:
            x = F.interpolate(x, scale_factor=0.5)
        return torch.relu(x)


def program() -> tuple[object, ...]:
    hints = {2: Dim.AUTO(max=512), 3: Dim.AUTO}
    return Shrinks(), (torch.randn(1, 3, 64, 80),), {}, {"x": hints}
