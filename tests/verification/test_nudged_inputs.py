"""Inputs changed by one unit in the last place: which, by how much, and which not."""

from __future__ import annotations

import math

import pytest
import torch

from trtdiag.options import Precision
from trtdiag.verification.numeric_sensitivity import nudged

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
VALUES = [1.5, -1.5, 0.1, -0.1, 1e-3, 0.99, 300.7, -2.5]


@pytest.mark.parametrize("dtype", FLOATS)
def test_each_float_is_the_next_one(dtype: torch.dtype) -> None:
    x = torch.tensor(VALUES, dtype=dtype)
    before = x.clone()
    x[6] = 3.25  # 300.7 is a whole number in bfloat16
    before[6] = 3.25
    above, below = (torch.nextafter(x, torch.full_like(x, end)) for end in (math.inf, -math.inf))
    *others, up, down = (run[0] for run in nudged([x], Precision.KEEP))
    assert torch.equal(up, above)
    assert torch.equal(down, below)
    assert len(others) == 6
    for other in others:
        assert bool(((other == above) | (other == below)).all())
    assert torch.equal(x, before)


def test_directions_are_drawn_for_each_element_and_the_same_each_time() -> None:
    inputs = [torch.rand(100) + 0.1, torch.rand(100) + 0.1]
    runs, again = (list(nudged(inputs, Precision.KEEP)) for _ in range(2))
    ups = [[(x > before).tolist() for x, before in zip(run, inputs, strict=True)] for run in runs]
    assert ups == [[(x > b).tolist() for x, b in zip(run, inputs, strict=True)] for run in again]
    drawn = [up for run in ups[:-2] for up in run]
    assert all(30 < sum(up) < 70 for up in drawn)
    assert len({tuple(up) for up in drawn}) == 12


@pytest.mark.parametrize(("precision", "unit"), [(Precision.FP16, 2.0**-11), (Precision.BF16, 2.0**-8)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_half_precision_has_its_own_unit(precision: Precision, unit: float, dtype: torch.dtype) -> None:
    x = torch.tensor(VALUES, dtype=dtype)
    *_, up, down = (run[0] for run in nudged([x], precision))
    assert torch.allclose(up - x, x.abs() * unit, rtol=1e-3)
    assert torch.allclose(down - x, -x.abs() * unit, rtol=1e-3)


@pytest.mark.parametrize(
    ("dtype", "precision"),
    [
        (torch.float16, Precision.FP16),
        (torch.bfloat16, Precision.FP16),
        (torch.bfloat16, Precision.BF16),
    ],
)
def test_the_greater_step_counts(dtype: torch.dtype, precision: Precision) -> None:
    """Less than its own step would be rounded away."""
    x = torch.tensor([1.5, -1.5, 0.1, -0.1, 0.99], dtype=dtype)
    runs = list(nudged([x], precision))
    for run, kept in zip(runs, nudged([x], Precision.KEEP), strict=True):
        assert torch.equal(run[0], kept[0])
        assert bool((run[0] != x).all())


@pytest.mark.parametrize("precision", list(Precision))
def test_what_is_exact_stays(precision: Precision) -> None:
    """A mask of ones and zeros, or of infinities, is compared with them; the greatest number has none above it."""
    greatest = torch.finfo(torch.float32).max
    exact = torch.tensor([0.0, -0.0, 1.0, -3.0, 255.0, math.inf, -math.inf, math.nan, greatest])
    x = torch.cat([exact, torch.tensor([0.5])])
    leaves = [x, torch.arange(3), torch.tensor([True]), torch.tensor([1.5 + 2.5j]), 2.5, "text", None]
    runs = list(nudged(leaves, precision))
    assert len(runs) == 8
    for run in runs:
        assert torch.equal(run[0][:-1].view(torch.int32), exact.view(torch.int32))
        assert run[0][-1] != 0.5
        assert all(one is other for one, other in zip(run[1:], leaves[1:], strict=True))


@pytest.mark.parametrize("leaves", [[], [torch.arange(3), 1.5], [torch.zeros(3), torch.ones(2)], [torch.empty(0)]])
def test_nothing_is_given_where_nothing_changes(leaves: list[object]) -> None:
    assert list(nudged(leaves, Precision.KEEP)) == []


def test_strides_and_scalars() -> None:
    grid = torch.rand(4, 6) + 0.1
    for x in (grid.t(), grid[:, ::2], grid[0].expand(3, 6), torch.tensor(0.3)):
        *_, up, _down = (run[0] for run in nudged([x], Precision.KEEP))
        assert torch.equal(up, torch.nextafter(x, torch.full_like(x, math.inf)))
        assert up.shape == x.shape
