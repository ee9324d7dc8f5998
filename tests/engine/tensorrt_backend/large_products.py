"""Products of more than 2**31 bytes that repeat an operand: what TensorRT is tested and measured with."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn
from torch.export import Dim

import trtdiag
from trtdiag.runtime.compiled import CompiledProgram

BATCH, HEADS, ROWS, COLUMNS, INNER = 32, 4, 1499, 2997, 24
PART = 1 << 26


class Product(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ y)


class Positions(nn.Module):
    """Scores of relative positions, moved to where they belong, as of a conformer."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        batch, rows, columns = x.shape[0], x.shape[2], y.shape[3]
        scores = nn.functional.pad(x @ y, (1, 0)).view(batch, HEADS, columns + 1, rows)
        return scores[:, :, 1:].reshape(batch, HEADS, rows, columns)


class Weights(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, INNER, COLUMNS))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.weight) * y


CASES = {
    # the module, the batch dims of both sides, the dtype
    "right": (Product(), (BATCH, HEADS), (1, HEADS), torch.float32),
    "right-half": (Product(), (2 * BATCH, HEADS), (1, HEADS), torch.float16),
    "left": (Product(), (1, HEADS), (BATCH, HEADS), torch.float32),
    "heads": (Product(), (BATCH, HEADS), (BATCH, 1), torch.float32),
    "all": (Product(), (BATCH, HEADS), (1, 1), torch.float32),
    "positions": (Positions(), (BATCH, HEADS), (1, HEADS), torch.float32),
    "weights": (Weights(HEADS), (BATCH, HEADS), None, torch.float32),
    "linear": (Weights(1), (BATCH, HEADS), None, torch.float32),
}


def inputs(name: str, batch: int, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Both sides of a case at some sizes, the same at each call."""
    _module, left, right, dtype = CASES[name]
    made = torch.Generator("cuda").manual_seed(1)

    def draw(*sizes: int) -> torch.Tensor:
        given = [batch if axis == 0 and size > 1 else size for axis, size in enumerate(sizes)]
        return torch.randn(given, device="cuda", generator=made).to(dtype)

    second = torch.ones(1, device="cuda", dtype=dtype) if right is None else draw(*right, INNER, columns)
    return draw(*left, rows, INNER), second


class Wrong(NamedTuple):
    """How many elements are off, and between which."""

    count: int
    first: int | None
    last: int | None


def most_images(name: str) -> int:
    """The greatest batch of a case."""
    _module, left, right, _dtype = CASES[name]
    return max(left[0], (right or left)[0])


def program(name: str) -> tuple[nn.Module, CompiledProgram]:
    """A case on the GPU, and as an engine for up to its greatest sizes."""
    module, left, right, dtype = CASES[name]
    torch.manual_seed(0)
    module = module.cuda().to(dtype)
    batch, rows, columns = Dim("batch", max=most_images(name)), Dim("rows", max=ROWS), Dim("columns", max=COLUMNS)
    dims = tuple(
        {} if sizes is None else {**({0: batch} if sizes[0] > 1 else {}), axis: size}
        for sizes, axis, size in ((left, 2, rows), (right, 3, columns))
    )
    exported = torch.export.export(module, inputs(name, 2, 5, 9), dynamic_shapes=dims)
    # Guards of the reshape in "positions" do not hold where rows and columns are equal, say: force.
    compiled = trtdiag.compile(
        exported,
        backend="tensorrt",
        optimization_level=0,
        min_segment_ops=1,
        verify=False,
        force=True,
        workspace_mib=16384,
    )
    return module, compiled


def results(name: str, module: nn.Module, compiled: CompiledProgram) -> tuple[torch.Tensor, torch.Tensor]:
    """Of the engine and of PyTorch at the greatest sizes, as one dim each."""
    given = inputs(name, most_images(name), ROWS, COLUMNS)
    with torch.no_grad():
        shape = module(*given).shape
        # What the engine does not write is not by chance what is expected: memory that is reused holds NaN.
        torch.full(shape, torch.nan, dtype=given[0].dtype, device="cuda")
        return compiled(*given).reshape(-1), module(*given).reshape(-1)


def wrong(actual: torch.Tensor, expected: torch.Tensor) -> Wrong:
    """What is off by more than the order of 24 products does, in sums of up to 40; float16 keeps 11 bits of them."""
    near = 1e-3 if expected.dtype is torch.float32 else 5e-2
    count, first, last = 0, None, None
    for begin in range(0, expected.numel(), PART):
        part = slice(begin, begin + PART)
        off = (~((actual[part].float() - expected[part].float()).abs() <= near)).nonzero()
        if len(off):
            count, last = count + len(off), begin + int(off[-1])
            first = begin + int(off[0]) if first is None else first
    return Wrong(count, first, last)
