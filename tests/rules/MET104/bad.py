"""Self-attention, exported with one tensor for query, key and value: the program reads value alone."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Attention(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(query, key, value)


def program() -> ExportedProgram:
    x = torch.randn(2, 5, 8)
    batch = Dim("batch", min=1, max=7)
    return export(Attention(), (x, x, x), dynamic_shapes=({0: batch}, {0: batch}, {0: batch}))
