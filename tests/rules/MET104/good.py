"""A tensor of its own for each input; one that the model reads nothing of, and one that is given inside of a dict."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Attention(nn.Module):
    def forward(
        self, query: torch.Tensor, others: dict[str, torch.Tensor], unused: torch.Tensor | None = None
    ) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(query, others["key"], others["value"])


def program() -> ExportedProgram:
    x = torch.randn(2, 5, 8)
    batch = {0: Dim("batch", min=1, max=7)}
    args = x, {"key": x.clone(), "value": x.clone()}, torch.zeros(3)
    return export(Attention(), args, dynamic_shapes=(batch, {"key": batch, "value": batch}, None))
