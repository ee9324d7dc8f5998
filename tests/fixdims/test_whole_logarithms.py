"""How many bits or digits a size has: what is advised in the place of a rounded logarithm exports, as a size."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export
from torch.nn import functional as F

import trtdiag
from tests.fixdims.test_advice import ASKED, STATIC, because, only
from tests.harness.rows import each
from trtdiag.fixdims.plain_numbers import INSTEAD_OF_NUMBER, WHOLE_LOGARITHM

PYTHON = "a Python condition"
NUMPY = "TypeError: argument 0 of type SymInt which has no callable log2 method"


@each(
    "row",
    [
        ("h == 144", "size = int(2 ** math.ceil(math.log(n, 2)))", PYTHON, WHOLE_LOGARITHM),
        ("h == 144", "u = min(5 * int(math.ceil(math.log(n + 1))), n)", PYTHON, WHOLE_LOGARITHM),
        (NUMPY, "levels = int(np.ceil(np.log2(h)))", "tracing", WHOLE_LOGARITHM),
        ("h == 144", "scale = round(share) * math.log(n)", PYTHON, "torch.tensor(h).log()"),
        ("h == 144", "size = 1 << (x.shape[2] - 1).bit_length()", PYTHON, INSTEAD_OF_NUMBER["bit_length"]),
    ],
)
def test_a_logarithm_that_is_rounded_is_counted(row: tuple[str, str, str, str]) -> None:
    text, code, by, instead = row
    one = only(ASKED, STATIC, because(text, code, by))
    assert one is not None
    assert one.text.startswith(f"write {instead} at net.py:7: ")


class Rounded(nn.Module):
    """Fills up to a power, and takes as many of the largest as ProbSparse attention does."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        n = x.shape[1]
        return F.pad(x, (2 ** math.ceil(math.log(n, 2)) - n, 0)), x.topk(math.floor(math.log(n)), 1)[0]


class Counted(nn.Module):
    """The same, as it is advised."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        n = x.shape[1]
        up = torch.sym_sum([torch.sym_ite(n > 2**k, 1, 0) for k in range(31)])
        down = torch.sym_sum([torch.sym_ite(n >= math.e ** (k + 1), 1, 0) for k in range(31)])
        return F.pad(x, (2**up - n, 0)), x.topk(down, 1)[0]


def test_what_is_advised_is_a_size() -> None:
    dims = ({0: Dim("b", max=5), 1: Dim.DYNAMIC(min=8, max=131)},)
    program = export(Counted(), (torch.rand(2, 24),), dynamic_shapes=dims).module()
    for n in (8, 9, 16, 20, 21, 54, 64, 65, 113, 128, 131):
        x = torch.rand(3, n)
        assert all(torch.equal(*pair) for pair in zip(program(x), Rounded()(x), strict=True)), n


@pytest.mark.slow  # quick: the words for the line, and that they export
def test_what_is_advised_keeps_every_size() -> None:
    asked = ({0: Dim("b", max=5), 1: Dim("n", min=8, max=131)},)
    before = trtdiag.fix_dims(Rounded(), (torch.rand(2, 24),), dynamic_shapes=asked)
    (change,) = before.changes
    assert change.model_change is not None
    assert change.model_change.text.startswith(f"write {WHOLE_LOGARITHM} at ")
    after = trtdiag.fix_dims(Counted(), (torch.rand(2, 24),), dynamic_shapes=asked)
    assert after.proven
    assert [change.kept for change in after.changes] in ([], [(124, 124)])
