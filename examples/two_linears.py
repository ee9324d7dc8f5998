"""Two linear layers on a batch of sequences: ``batch`` has both bounds, ``seq`` only a maximum.

trtdiag analyze examples.two_linears:build
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim


class TwoLinears(nn.Module):
    """(batch, seq, 16) to (batch * seq, 4)."""

    def __init__(self) -> None:
        super().__init__()
        self.widen = nn.Linear(16, 32)
        self.narrow = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.narrow(self.widen(x).relu()).flatten(0, 1)


def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]:
    """The model, its example inputs, and batch 1..10 by seq ..512."""
    dims = {0: Dim("batch", min=1, max=10), 1: Dim("seq", max=512)}
    return TwoLinears().eval(), (torch.randn(2, 7, 16),), {}, {"x": dims}
