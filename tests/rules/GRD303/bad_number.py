"""Half of the rows by ``int``: the example's half is in the program, and every other one is refused."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim


class Half(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[: int(x.shape[0] * 0.5)].cos()


def program() -> tuple[object, ...]:
    return Half(), (torch.randn(8, 3),), {}, {"x": {0: Dim("rows", min=2, max=61)}}
