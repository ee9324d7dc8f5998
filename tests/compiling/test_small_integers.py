"""Integers of 8 bits through the whole pipeline: uint8 next to its casts, int32 where nothing wraps, else PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

from tests.harness.rows import thinned
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.state import State

Body = Callable[[nn.Module, Tensor], Tensor]


class Image(nn.Module):
    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self.conv, x)


def _compiled(body: Body, target: str, dtype: torch.dtype = torch.uint8) -> State:
    """The program of an image, whose outputs for all values and several sizes are those of PyTorch."""
    model = Image(body).eval()
    low, high = (0, 256) if dtype is torch.uint8 else (-128, 128)
    example = torch.arange(low, low + 2 * 3 * 9 * 7).reshape(2, 3, 9, 7).remainder(256).to(dtype)
    exported = export(model, (example,), dynamic_shapes={"x": {2: Dim("h", min=5, max=31)}})
    split = PartitionOptions(min_segment_ops=1)
    made = compile_in_stages(exported, CompileOptions(backend="reference", target=target, partition=split))
    assert made.verification is not None
    assert made.verification.passed
    for height in (5, 31):
        x = torch.randint(low, high, (2, 3, height, 7), dtype=dtype)
        torch.testing.assert_close(made.compiled(x), model(x))  # torch's own tolerances for float32
    return made


def _engine_inputs(made: State) -> list[torch.dtype]:
    return [port.dtype for manifest in made.compiled.manifests for port in manifest.inputs if not port.is_size]


@pytest.mark.parametrize("target", ["8.6", "11.4"])
def test_an_image_of_bytes_enters_as_it_is(target: str) -> None:
    made = _compiled(lambda conv, x: conv(x.float() / 255), target)
    assert made.plan.support.limits == {}
    assert _engine_inputs(made) == [torch.uint8]


@pytest.mark.slow  # quick: test_an_image_of_bytes_enters_as_it_is
@pytest.mark.parametrize("target", ["8.6", pytest.param("11.4", marks=pytest.mark.slow)])
def test_bytes_that_leave_next_to_their_cast_leave_as_they_are(target: str) -> None:
    made = _compiled(lambda conv, x: (conv(x.float() / 255).sigmoid() * 255).round().to(torch.uint8), target)
    assert made.plan.support.limits == {}
    assert [port.dtype for port in made.compiled.manifests[0].outputs] == [torch.uint8]


# Quick: bytes with a sign; those without are arithmetic's, below.
@pytest.mark.parametrize("dtype", [pytest.param(torch.uint8, marks=pytest.mark.slow), torch.int8], ids=str)
# One rule decides for all of them.
@thinned(
    "moved",
    [
        lambda x: x.flip(3),
        lambda x: x[:, :, :, 1::2],
        lambda x: x.index_select(3, torch.tensor([4, 0, 4, 6])),
        lambda x: x.gather(3, torch.zeros(2, 3, 5, 4, dtype=torch.int64)),
        lambda x: torch.cat([x, x], 3),
        lambda x: torch.slice_scatter(x, x[:, :, :, :2], 3, 5),
        lambda x: x.amax(1, keepdim=True).expand(-1, 3, -1, -1),
        lambda x: torch.where(x > 3, x, x.flip(3)),
        lambda x: x & 15,
    ],
    every=3,
)
def test_what_cannot_wrap_is_int32_in_every_family(moved: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    made = _compiled(lambda conv, x: conv(moved(x).float()), "11.4", dtype)
    assert made.plan.support.limits == {}
    assert _engine_inputs(made) == [torch.int32]


# Quick: bytes without a sign; with one they wrap alike.
@pytest.mark.parametrize("dtype", [torch.uint8, pytest.param(torch.int8, marks=pytest.mark.slow)], ids=str)
# One rule decides for all of them.
@thinned(
    "wrapping",
    [
        lambda x: x + x.flip(3),
        lambda x: x * 3,
        lambda x: x.index_add(3, torch.tensor([0, 0]), x[:, :, :, :2]),
        lambda x: x.scatter_add(3, torch.zeros(2, 3, 5, 2, dtype=torch.int64), x),
        lambda x: x.sum(3, keepdim=True, dtype=x.dtype).expand(-1, -1, -1, 7),
        lambda x: x.cumsum(3, dtype=x.dtype),
    ],
    every=3,
)
def test_arithmetic_that_wraps_stays_with_pytorch(wrapping: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    made = _compiled(lambda conv, x: conv(wrapping(x).float() / 255), "11.4", dtype)
    assert {limit.code for limit in made.plan.support.limits.values()} == {"integer-width"}
    assert len(made.compiled.manifests) >= 1
