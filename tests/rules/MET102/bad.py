"""A pass turned an activation to float16 and kept the old recorded values behind it."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Block(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.to(torch.bfloat16)
        z = torch.relu(y)
        return z * 2


def program() -> ExportedProgram:
    ep = export(Block(), (torch.randn(3, 8),), dynamic_shapes={"x": {0: Dim("batch", min=1, max=64)}})
    for node in ep.graph.nodes:
        if "dtype" in node.kwargs:
            node.kwargs = {**node.kwargs, "dtype": torch.float16}
        node.args = tuple(torch.float16 if arg is torch.bfloat16 else arg for arg in node.args)
    return ep
