"""Whole numbers of all 32 bits in engines beside products of matrices, where TensorRT 8.6 divides them in float32."""

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
MOST = 8000
ENDS = torch.tensor([-(2**31), -(2**31) + 1, -(2**24) - 1, -1, 0, 1, 2**24 + 1, 2**31 - 65, 2**31 - 1])


class Sorted(nn.Module):
    """The order of the numbers; digit by digit, which counts with products, where they may be many."""

    def __init__(self, descending: bool) -> None:
        super().__init__()
        self.descending = descending

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.sort(x, stable=True, descending=self.descending)


class Divided(nn.Module):
    """Quotients, rests, shifts and masks, and a product of matrices that reads some of them."""

    def __init__(self, divisor: int) -> None:
        super().__init__()
        self.divisor = divisor
        self.register_buffer("weight", torch.randn(16, 5, generator=torch.Generator().manual_seed(1)))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        places = torch.stack([x >> place for place in range(16)], 1)
        product = (places & 1).float() @ self.weight
        return x // self.divisor, x % self.divisor, torch.fmod(x, self.divisor), x >> 20, x & 0x7FFFFF00, product


def _numbers(count: int) -> torch.Tensor:
    """Of all magnitudes, the ends among them."""
    random = torch.Generator().manual_seed(count)
    drawn = torch.randint(-(2**31), 2**31, (count,), generator=random)
    drawn >>= torch.randint(0, 31, (count,), generator=random)
    drawn[: len(ENDS)] = ENDS[:count]
    return drawn.int()


def _check(module: nn.Module) -> None:
    program = torch.export.export(module, (_numbers(257),), dynamic_shapes=({0: Dim("n", min=2, max=MOST)},))
    compiled = trtdiag.compile(program, backend="tensorrt", min_segment_ops=0, verify=False)
    assert len(compiled.manifests) == 1
    for count in (2, 31, 257, 4099, MOST):
        x = _numbers(count)
        for actual, expected in zip(compiled(x.cuda()), module(x), strict=True):
            # Sums of up to 16 weights, in TF32 where the engine takes it; whole numbers are exact.
            torch.testing.assert_close(actual.cpu(), expected, atol=2e-2 if expected.is_floating_point() else 0, rtol=0)


@pytest.mark.parametrize("descending", [False, True])
def test_the_order_of_any_numbers(descending: bool) -> None:
    _check(Sorted(descending))


@pytest.mark.parametrize("divisor", [3, 1 << 20, 1_000_003])
def test_quotients_beside_a_product(divisor: int) -> None:
    _check(Divided(divisor))
