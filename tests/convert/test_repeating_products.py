"""Products that repeat an operand: written out where the target writes large ones to wrong places (TensorRT 8.6)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch.export import Dim

from tests.convert import op_check
from tests.harness.rows import thinned
from trtdiag.network.layers.matmul import MatrixMultiply, MatrixOperation
from trtdiag.network.layers.slice import Slice
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.symbolic import Num
from trtdiag.targets import TARGETS, get_target

aten = torch.ops.aten
MATMUL, LINEAR = aten.matmul.default, aten.linear.default


def _few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that goes wrong above 64 bytes, 16 floats."""
    few = replace(get_target("8.6"), repeating_product_bytes=64)
    monkeypatch.setattr(op_check, "get_target", lambda version: few)


# The quick run has one that repeats, one that does not, and both ends.
@thinned(
    ("left", "right", "slices"),
    [
        # Repeated: the right one, the left one, both, in one dim of three, and vectors.
        ((3, 2, 5, 7), (1, 2, 7, 11), 1),
        ((3, 2, 5, 7), (3, 1, 7, 11), 1),
        ((1, 2, 5, 7), (3, 2, 7, 11), 1),
        ((5, 7), (3, 2, 7, 11), 1),
        ((3, 1, 5, 7), (1, 2, 7, 11), 2),
        ((2, 3, 2, 5, 7), (2, 3, 1, 7, 11), 1),
        ((7,), (3, 2, 7, 11), 1),
        # One matrix for all: its rows are those of one product.
        ((3, 2, 5, 7), (7, 11), 0),
        ((3, 2, 5, 7), (1, 1, 7, 11), 0),
        ((3, 1, 5, 7), (1, 7, 11), 0),
        ((3, 5, 7), (7, 11), 0),
        ((3, 2, 31, 7), (7,), 0),
        # Nothing repeats.
        ((3, 2, 5, 7), (3, 2, 7, 11), 0),
        ((1, 1, 5, 7), (1, 1, 7, 11), 0),
        ((5, 7), (7, 11), 0),
        ((1, 1, 1, 1), (1, 1, 1, 1), 0),
    ],
    every=3,
)
def test_it_is_the_same_product(
    left: tuple[int, ...], right: tuple[int, ...], slices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _few_bytes(monkeypatch)
    torch.manual_seed(0)
    args = (torch.randn(left), torch.randn(right))
    for dynamic in (False, True):
        outcome = op_check.check_op(MATMUL, args, dynamic=dynamic, shared=True, target="8.6")
        assert outcome.converted is not None
        assert outcome.sizes > int(dynamic and max(*left, *right) > 1)
        network = outcome.converted.network
        assert sum(isinstance(one.layer, Slice) for one in network.layers) == slices
        (product,) = (one for one in network.layers if isinstance(one.layer, MatrixMultiply))
        batches = [
            network.tensors[number].shape[: -1 if operation is MatrixOperation.VECTOR else -2]
            for number, operation in zip(product.inputs, (product.layer.op0, product.layer.op1), strict=True)
        ]
        assert batches[0] == batches[1] or (len(batches[0]) == 1 and batches[1] == (Num(1),))


# Quick: a batch of two dims and a batch of one.
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((3, 2, 5, 7), marks=pytest.mark.slow),
        (2, 3, 2, 5, 7),
        (4, 5, 7),
        pytest.param((5, 7), marks=pytest.mark.slow),
    ],
)
def test_weights_are_not_repeated(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    _few_bytes(monkeypatch)
    torch.manual_seed(0)
    args = (torch.randn(shape), torch.randn(11, 7), torch.randn(11))
    outcome = op_check.check_op(LINEAR, args, dynamic=True, target="8.6", constants=True)
    assert outcome.converted is not None
    assert outcome.sizes > 1
    assert not [one for one in outcome.converted.network.layers if isinstance(one.layer, Slice)]


class Shared(torch.nn.Module):
    """Scores beside positions that all images share, as of a conformer."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.relu(x) @ torch.relu(y)).sum(-1)


@cache
def _exported(batch: int, dtype: torch.dtype) -> torch.export.ExportedProgram:
    rows = Dim("rows", min=1, max=1024)
    dims = ({0: Dim("batch", min=1, max=batch), 2: rows}, {3: Dim("columns", min=1, max=2048)})
    args = (torch.randn(2, 4, 3, 5, dtype=dtype), torch.randn(1, 4, 5, 7, dtype=dtype))
    return torch.export.export(Shared(), args, dynamic_shapes=dims)


def _slices(batch: int, dtype: torch.dtype, target: str) -> int:
    """Of up to ``batch`` images, 4 heads, 1,024 x 2,048 scores: 2**23 elements an image."""
    found = compile_in_stages(_exported(batch, dtype), CompileOptions(target, "reference", verify=False))
    (segment,) = found.converted
    for sizes in ((1, 1, 1), (3, 17, 31)):
        x = torch.randn(sizes[0], 4, sizes[1], 5, dtype=dtype), torch.randn(1, 4, 5, sizes[2], dtype=dtype)
        # Sums of 5 products, then of 31 scores; float16 rounds each.
        close = {"rtol": 1e-5, "atol": 1e-5} if dtype is torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
        torch.testing.assert_close(found.compiled(*x), Shared()(*x), **close)
    return sum(isinstance(one.layer, Slice) for one in segment.network.layers)


# Quick: float32 on both sides.
@pytest.mark.parametrize(
    ("batch", "dtype", "slices"),
    [
        (64, torch.float32, 0),  # 2**31 bytes: each matrix begins below
        (65, torch.float32, 1),
        pytest.param(128, torch.float16, 0, marks=pytest.mark.slow),
        pytest.param(129, torch.float16, 1, marks=pytest.mark.slow),
    ],
)
def test_where_it_begins(batch: int, dtype: torch.dtype, slices: int) -> None:
    assert _slices(batch, dtype, "8.6") == slices
    assert _slices(batch, dtype, "11.4") == 0


def test_versions_that_are_not_known_to_go_wrong() -> None:
    assert {target.version for target in TARGETS if target.repeating_product_bytes} == {"8.6"}
