"""An original that adds up one after the other is off by more than a compiled program that adds up pairwise."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.verification.masked_attention import exported, only, verified

PLACE = torch.zeros(60_000, dtype=torch.int64)


class Adds(torch.nn.Module):
    """60,000 times 0.1 in one place: 6e-4 of the sum off where each is added to all before it."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros(2).index_add_(0, PLACE, x) + x[:2]


def _exact(x: Tensor) -> Tensor:
    return torch.zeros(2).double().index_add_(0, PLACE, x.double()).float() + x[:2]


def test_a_program_that_adds_up_exactly_agrees_with_one_that_does_not() -> None:
    found = verified(exported(Adds(), torch.full((60_000,), 0.1)), _exact)
    result, output = only(found)
    assert found.passed
    assert found.unstable == (result,)
    assert "or its sums are added up in float64" in result.unstable
    assert output.moved is not None
    assert output.moved > 1e-4 * 6_000


def test_a_wrong_sum_fails() -> None:
    found = verified(exported(Adds(), torch.full((60_000,), 0.1)), lambda x: _exact(x) * 1.02)
    assert not found.passed
