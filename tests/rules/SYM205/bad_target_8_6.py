"""TensorRT 8.6 has one limit for all layers, so an elementwise op breaks it as well."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export

OPTIONS = {"target": "8.6"}


class Scale(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def program() -> ExportedProgram:
    dims = {"x": {0: Dim("rows", min=1, max=65536), 1: Dim("columns", min=1, max=32768)}}
    return export(Scale(), (torch.randn(3, 5),), dynamic_shapes=dims)
