"""Attention of programs in float16 for TensorRT 8.6: its error beside PyTorch's own, both from float64."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from trtdiag.options import CompileOptions, Precision
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.targets import get_target, installed_version

GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]
# Where a kernel that keeps its scores in float32 rounds its weights and its result, and one that rounds its result
# alone, the greatest errors of some thousand elements differ by chance.
TIMES = 2.0
UNIT = 2.0**-13
"""Half a unit of float16's last place of numbers from 1/4 to 1/2, where one kernel rounds up and the other down."""


class Attends(nn.Module):
    def __init__(self, scale: float | None) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return (
            F.scaled_dot_product_attention(query, key, value, scale=self.scale),
            F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=self.scale),
            F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=self.scale),
        )


def _given(batch: int, steps: int, width: int, spread: float, device: str) -> list[Tensor]:
    torch.manual_seed(steps)
    query, key, value = (torch.randn(batch, 3, steps, width, device=device) for _ in range(3))
    mask = torch.randn(steps, steps, device=device)
    return [x.half() for x in (query * spread, key * spread, value, mask)]


def _errors(compiled: nn.Module, module: nn.Module, given: list[Tensor]) -> Iterator[tuple[float, float]]:
    """Ours and PyTorch's, of each result."""
    with torch.no_grad():
        exact = module(*[x.double() for x in given])
        for got, own, wanted in zip(compiled(*given), module(*given), exact, strict=True):
            assert got.dtype == own.dtype == given[0].dtype
            yield float((got.double() - wanted).abs().max()), float((own.double() - wanted).abs().max())


def _compiled(module: nn.Module, given: list[Tensor], **options: object) -> nn.Module:
    batch, steps = Dim("batch", min=1, max=4), Dim("steps", min=2, max=512)
    dims = (*({0: batch, 2: steps},) * 3, {0: steps, 1: steps})
    found = compile_in_stages((module, tuple(given), {}, dims), CompileOptions(verify=False, **options))
    assert found.plan.partitioned.fallback == ()
    return found.compiled


@pytest.mark.parametrize(
    ("width", "spread", "scale"),
    [
        pytest.param(64, 1.0, None, marks=pytest.mark.slow),
        pytest.param(48, 3.0, None, marks=pytest.mark.slow),
        # Quick: scores of some dozens: one unit of float16 is 1/32 there.
        (32, 1.0, 1.0),
        pytest.param(128, 4.0, None, marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow  # quick: one pattern, compared with PyTorch, below
def test_the_error_is_at_most_twice_that_of_pytorch(width: int, spread: float, scale: float | None) -> None:
    module, example = Attends(scale), _given(2, 8, width, spread, "cpu")
    compiled = _compiled(module, example, target="8.6", backend="reference")
    for batch, steps in ((1, 2), (3, 7), (2, 128), (1, 512)):
        for ours, own in _errors(compiled, module, _given(batch, steps, width, spread, "cpu")):
            assert ours <= TIMES * own + UNIT


@pytest.mark.slow  # quick: tests/convert/test_ops_attention.py
def test_half_precision_that_was_asked_for_is_one_pattern() -> None:
    """All of it in float16, as TensorRT 8.6 has one kernel for: scores are rounded, and that is told apart here."""
    module, example = Attends(1.0), _given(2, 8, 32, 1.0, "cpu")
    options = {"target": "8.6", "backend": "reference"}
    fast, exact = (
        _compiled(module, example, **options, precision=precision) for precision in (Precision.FP16, Precision.KEEP)
    )
    given = _given(2, 128, 32, 1.0, "cpu")
    (coarse, _), *_ = _errors(fast, module, given)
    (fine, _), *_ = _errors(exact, module, given)
    assert coarse > 4 * fine


@pytest.mark.parametrize("scale", [None, 1.0])
@pytest.mark.parametrize("width", [pytest.param(32, marks=GPU), pytest.param(64, marks=GPU)])
def test_engines_of_tensorrt(width: int, scale: float | None) -> None:
    if "Attention" in get_target(None).layers:
        pytest.skip("10 and 11 have a layer for it, whose scores this test does not know")
    module, example = Attends(scale), _given(2, 8, width, 1.0, "cuda")
    compiled = _compiled(module, example, backend="tensorrt")
    for batch, steps in ((1, 2), (3, 7), (2, 128), (1, 512)):
        for ours, own in _errors(compiled, module, _given(batch, steps, width, 1.0, "cuda")):
            assert ours <= TIMES * own + UNIT
