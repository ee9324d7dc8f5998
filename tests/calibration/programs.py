"""Small programs to quantize, and data for them."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export

from trtdiag.calibration.insert import Folded, folded
from trtdiag.frontend.capture import capture

torchao = pytest.importorskip("torchao", reason="calibrating needs torchao, the quantization extra")


class Block(nn.Module):
    """A residual block with batch norms, and a branch where channels change."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out)
        self.c2, self.b2 = nn.Conv2d(out, out, 3, padding=1), nn.BatchNorm2d(out, affine=False)
        self.branch = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.b2(self.c2(torch.relu_(self.b1(self.c1(x)))))
        y += self.branch(x)
        return torch.relu(y)


class Net(nn.Module):
    """Convolutions, norms, sums and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2)
        self.first, self.second = Block(8, 8), Block(8, 12)
        self.head = nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.second(self.first(self.stem(x))).mean((2, 3)))  # type: ignore[no-any-return]


def net() -> Net:
    """The net with statistics that are not the initial ones, or folding norms would show nothing."""
    torch.manual_seed(0)
    made = Net().eval()
    for norm in made.modules():
        if isinstance(norm, nn.BatchNorm2d):
            assert norm.running_mean is not None
            assert norm.running_var is not None
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            if norm.affine:
                nn.init.uniform_(norm.weight, -1.5, 1.5)
                nn.init.normal_(norm.bias)
    return made


@cache
def exported_net() -> ExportedProgram:
    """Dynamic in batch and height; shared between tests, which do not change it."""
    dims = {0: Dim("n", max=7), 2: Dim("h", min=9, max=33)}
    return export(net(), (torch.randn(2, 3, 17, 13),), dynamic_shapes=(dims,))


def images(count: int = 3) -> list[torch.Tensor]:
    """Batches for the net: both ends of the range of heights, and an odd size."""
    generator = torch.Generator().manual_seed(1)
    heights = (9, 33, 21)
    return [torch.randn(1 + at % 3, 3, heights[at % 3], 13, generator=generator) for at in range(count)]


def calls(batches: list[torch.Tensor]) -> list[tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]]:
    """Each batch as a call."""
    return [((batch,), {}) for batch in batches]


def folded_of(module: nn.Module, *args: torch.Tensor, dynamic_shapes: object = None) -> Folded:
    """A module as calibrating takes it."""
    return folded(capture(export(module.eval(), args, dynamic_shapes=dynamic_shapes)))  # type: ignore[arg-type]
