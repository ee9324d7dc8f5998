"""A quantized head that the user leaves to PyTorch."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export

from trtdiag.graph.quantizers import decomposed_ops

OPS = decomposed_ops()
OPTIONS = {"keep_in_torch": ["aten.linear"]}


def rounded(x: torch.Tensor, scale: float = 0.05, zero: int = 0) -> torch.Tensor:
    how = (scale, zero, -128, 127, torch.int8)
    return OPS.dequantize_per_tensor(OPS.quantize_per_tensor(x, *how), *how)


def by_channel(weight: torch.Tensor, axis: int = 0) -> torch.Tensor:
    scales, zeros = torch.full((weight.shape[axis],), 0.01), torch.zeros(weight.shape[axis], dtype=torch.int64)
    how = (scales, zeros, axis, -127, 127, torch.int8)
    return OPS.dequantize_per_channel(OPS.quantize_per_channel(weight, *how), *how)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.conv2d(rounded(x), by_channel(self.first.weight), self.first.bias)
        x = torch.conv2d(rounded(x.relu()), by_channel(self.second.weight), self.second.bias)
        return torch.nn.functional.linear(rounded(x.mean((2, 3))), by_channel(self.head.weight), self.head.bias)


def program() -> ExportedProgram:
    return export(Model().eval(), (torch.randn(2, 3, 8, 9),), dynamic_shapes=({0: Dim("n", max=8)},))
