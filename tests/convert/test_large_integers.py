"""Whole numbers of all 32 bits where an engine divides them in float32, as TensorRT 8.6 does beside products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

from tests.convert.function_program import converted
from trtdiag.convert.layer_writers import topk
from trtdiag.network import run
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation

Op = ElementWiseOperation
ENDS = [-(2**31), -(2**31) + 1, -(2**24) - 1, -17, -1, 0, 1, 15, 2**24 + 1, 2**28 - 1, 2**31 - 65, 2**31 - 1]


@pytest.fixture(autouse=True)
def _divided_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = ElementWise.reference

    def reference(layer: ElementWise, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if layer.op not in (Op.DIV, Op.FLOOR_DIV) or inputs[0].dtype is not torch.int32:
            return exact(layer, *inputs)
        quotient = inputs[0].float() / inputs[1].float()
        return ((quotient.floor() if layer.op is Op.FLOOR_DIV else quotient.trunc()).int(),)

    monkeypatch.setattr(ElementWise, "reference", reference)


def _numbers(count: int) -> torch.Tensor:
    """Of all magnitudes, the ends among them."""
    random = torch.Generator().manual_seed(count)
    drawn = torch.randint(-(2**31), 2**31, (count,), generator=random) >> torch.randint(
        0, 31, (count,), generator=random
    )
    drawn[: len(ENDS)] = torch.tensor(ENDS)[:count]
    return drawn.int()


def _differ(function: Callable[..., Any], x: torch.Tensor, high: int) -> list[int]:
    original, segment = converted(function, (x,), ({0: Dim("n", min=2, max=high)},), "8.6")
    wanted = original(x)
    pairs = zip(run(segment.network, [x]), wanted if isinstance(wanted, (tuple, list)) else [wanted], strict=True)
    return [int((got != want).sum()) for got, want in pairs]


# Powers of two up to all places, and divisors that no float is a multiple of.
@pytest.mark.parametrize("divisor", [2, 16, 3, 97, 1 << 19, 1 << 20, 1_000_003])
def test_quotients_and_rests(divisor: int) -> None:
    def all_of_them(_: Any, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x // divisor,
            x % divisor,
            torch.fmod(x, divisor),
            torch.div(x, divisor, rounding_mode="trunc"),
        )

    assert _differ(all_of_them, _numbers(509), 4096) == [0, 0, 0, 0]


def test_shifts_and_masks() -> None:
    def all_of_them(_: Any, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return *(x >> places for places in (1, 7, 20, 21, 30, 31)), x & 0xFF, x & 0x7FFFFF00, x ^ 0x0F0F0F0F

    assert _differ(all_of_them, _numbers(509), 4096) == [0] * 9


@pytest.mark.parametrize("count", [2, 31, 257])
@pytest.mark.parametrize("descending", [False, True])
def test_the_order_of_any_numbers(count: int, descending: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topk, "MOST_PAIRS", 100)  # digit by digit already at few elements

    def in_order(_: Any, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.sort(x, stable=True, descending=descending)

    assert _differ(in_order, _numbers(count), 4097) == [0, 0]


@pytest.mark.parametrize(("dtype", "layers"), [(torch.bool, 80), (torch.int32, 430)])
def test_the_order_of_bools_takes_one_digit(dtype: torch.dtype, layers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topk, "MOST_PAIRS", 100)
    x = (_numbers(257) & 3).to(dtype)
    dims = ({0: Dim("n", min=2, max=4097)},)
    original, segment = converted(lambda _, x: torch.sort(x, stable=True), (x,), dims, "8.6")
    for got, want in zip(run(segment.network, [x]), original(x), strict=True):
        assert torch.equal(got, want)
    assert len(segment.network.layers) < layers
