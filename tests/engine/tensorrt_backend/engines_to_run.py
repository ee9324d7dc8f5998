"""Programs and engines for tests of how they run: dynamic rows, an engine alone or with PyTorch between two."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim, export

import trtdiag
from trtdiag.network import DType, Network, NetworkBuilder, Origin
from trtdiag.network.layer import INPUT
from trtdiag.network.layers.concatenation import Concatenation
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.layers.slice import SampleMode, Slice
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Range, symbol

MOST_ROWS = 61
GRAPHS = [0, 3]
"""The most CUDA graphs of an engine, for tests that run with and without."""


class Alone(nn.Module):
    """All in one engine."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(5, 32), nn.LayerNorm(32), nn.Linear(32, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.gelu(self.norm(self.first(x))))


class Between(Alone):
    """A sum that stays with PyTorch, between two engines."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = F.gelu(self.first(x))
        total = torch.cumsum(y, 0)
        return self.last(self.norm(total)), F.relu(y) + 1


MODELS = {"alone": Alone, "between": Between}


def model(name: str, device: str) -> nn.Module:
    """The model, always with the same weights."""
    torch.manual_seed(11)
    return MODELS[name]().eval().to(device)


def program(name: str, backend: str, device: str, *, fixed: bool = False) -> CompiledProgram:
    """The model compiled for 1 to ``MOST_ROWS`` rows, or for 7."""
    rows = None if fixed else {"x": {0: Dim("rows", min=1, max=MOST_ROWS)}}
    exported = export(model(name, device), (torch.randn(7, 5, device=device),), dynamic_shapes=rows)
    return trtdiag.compile(
        exported,
        backend=backend,
        min_segment_ops=1,
        keep_in_torch=("aten.cumsum",),
        optimization_level=1,
        verify=False,
    )


def rows_of_input(rows: int, seed: int = 0, device: str = "cuda") -> Tensor:
    """An input of these programs, the same for the same seed."""
    return torch.randn(rows, 5, generator=torch.Generator().manual_seed(seed * 1000 + rows)).to(device)


def several(value: Any) -> tuple[Tensor, ...]:
    """The outputs of a call."""
    return value if isinstance(value, tuple) else (value,)


def compare(actual: Any, wanted: tuple[Tensor, ...]) -> None:
    """Hold the outputs of a call to those of PyTorch on the CPU."""
    for one, other in zip(several(actual), wanted, strict=True):
        # float32 sums of up to 61 rows in another order, and TensorRT's own erf and exp.
        torch.testing.assert_close(one.cpu(), other, rtol=2e-4, atol=2e-4)


def repeated_rows(sizes: DType) -> tuple[Network, dict[str, tuple[DimProfile, ...]]]:
    """``n`` rows of ``x``, from the first on and around: ``n`` enters as a number, and both may be 0."""
    builder = NetworkBuilder({"s": Range(1, 9), "n": Range(0, 12)})
    with builder.at(Origin("aten.test.default", "rows")):
        x = builder.input("x", DType.FLOAT32, [symbol("s"), 5])
        n = builder.input("n", sizes, [], [symbol("n")])
        line = builder.add_single(Shuffle(reshape=(1,)), n)
        wide = builder.constant(torch.tensor([5], dtype=sizes.torch))
        size = builder.add_single(Concatenation(0), line, wide)
        builder.output("y", builder.add_single(Slice((0, 0), INPUT, (1, 1), SampleMode.WRAP), x, size))
    profile = {"x": (DimProfile(1, 3, 9), DimProfile(5, 5, 5)), "n": (DimProfile(0, 4, 12),)}
    return builder.build(), profile
