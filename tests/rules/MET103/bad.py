"""Stacks were stripped from the ops of the layers: eight equal layers must give one finding."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import ExportedProgram, export


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.proj(x))


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x.sum()


def program() -> ExportedProgram:
    ep = export(Tower(), (torch.randn(3, 4),))
    for node in ep.graph.nodes:
        if any("layers" in path for path, _ in node.meta.get("nn_module_stack", {}).values()):
            node.meta.pop("stack_trace", None)
    return ep
