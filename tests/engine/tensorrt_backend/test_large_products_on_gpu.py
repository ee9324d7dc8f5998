"""Products of more than 2**31 bytes that repeat an operand; needs a GPU with some 16 GiB and TensorRT."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

import trtdiag
from trtdiag.targets import installed_version

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]
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


def _inputs(name: str, batch: int, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    _module, left, right, dtype = CASES[name]
    made = torch.Generator("cuda").manual_seed(1)

    def draw(*sizes: int) -> torch.Tensor:
        given = [batch if axis == 0 and size > 1 else size for axis, size in enumerate(sizes)]
        return torch.randn(given, device="cuda", generator=made).to(dtype)

    second = torch.ones(1, device="cuda", dtype=dtype) if right is None else draw(*right, INNER, columns)
    return draw(*left, rows, INNER), second


@pytest.mark.parametrize("name", CASES)
def test_every_element_is_right(name: str) -> None:
    assert not torch.backends.cuda.matmul.allow_tf32  # it is expected in float32
    if torch.cuda.mem_get_info()[0] < 16 << 30:
        pytest.skip("less than 16 GiB of the GPU's memory are free")
    module, left, right, dtype = CASES[name]
    module = module.cuda().to(dtype)
    most = max(left[0], (right or left)[0])
    batch, rows, columns = Dim("batch", max=most), Dim("rows", max=ROWS), Dim("columns", max=COLUMNS)
    dims = tuple(
        {} if sizes is None else {**({0: batch} if sizes[0] > 1 else {}), axis: size}
        for sizes, axis, size in ((left, 2, rows), (right, 3, columns))
    )
    exported = torch.export.export(module, _inputs(name, 2, 5, 9), dynamic_shapes=dims)
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
    assert len(compiled.manifests) == 1
    given = _inputs(name, most, ROWS, COLUMNS)
    with torch.no_grad():
        shape = module(*given).shape
        # What the engine does not write is not by chance what is expected: memory that is reused holds NaN.
        torch.full(shape, torch.nan, dtype=dtype, device="cuda")
        actual = compiled(*given).reshape(-1)
        expected = module(*given).reshape(-1)
    assert actual.nbytes > 2**31
    # Sums of 24 products of up to 40 in float32, which TensorRT adds in another order; float16 keeps 11 bits of them.
    near = 1e-3 if dtype is torch.float32 else 5e-2
    for begin in range(0, expected.numel(), PART):
        part = slice(begin, begin + PART)
        off = (actual[part].float() - expected[part].float()).abs()
        assert bool((off <= near).all()), f"wrong from element {begin + int((~(off <= near)).nonzero()[0])} on"
