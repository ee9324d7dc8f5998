"""Examples that make an inner map 1x1: another example keeps the larger part of the asked range."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from trtdiag import fix_dims
from trtdiag.fixdims.fix import Fix
from trtdiag.symbolic import Range


class Patches(nn.Module):
    """One patch of 32 in the example; ``halved``: two, and one after the pooling."""

    def __init__(self, *, halved: bool = False) -> None:
        super().__init__()
        self.patch = nn.Conv2d(1, 2, 32, 32)
        self.halved = halved

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patch(x)
        if self.halved:
            x = F.max_pool2d(x, 2)
        return x.squeeze(-1).squeeze(-1) if x.shape[-1] == 1 else x.mean((2, 3))


class Table(nn.Module):
    """A table of two positions: sizes up to 95 for whatever example."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv1d(1, 2, 32, 32)
        self.table = nn.Parameter(torch.zeros(9))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.patch(x)
        torch._check(y.shape[-1] <= self.table.shape[0])
        return y + self.table[: y.shape[-1]]


def change(fix: Fix, name: str):
    return next(found for found in fix.changes if found.name == name)


@pytest.mark.slow  # quick: an example of one gets another size, in test_fix_dims_examples.py
def test_an_example_with_a_single_patch_gives_way_to_one_with_several() -> None:
    spec = ({2: Dim("h", min=32, max=2160), 3: Dim("w", min=32, max=2160)},)
    fix = fix_dims(Patches(), (torch.randn(1, 1, 48, 48),), dynamic_shapes=spec)
    assert fix.proven
    assert fix.confirmation.exported
    for name in ("h", "w"):
        found = change(fix, name)
        assert found.kept == (2097, 2129)  # 64..2160 in place of 32..63
        assert "with an example of size 96" in found.after
        assert any("with the example as it is" in other.text for other in found.alternatives)
    program = fix.program.module()
    for h, w in ((64, 64), (97, 2160)):
        assert program(torch.randn(1, 1, h, w)).shape == (1, 2)


@pytest.mark.slow  # the quick run has a single patch that gives way, above
def test_only_the_dim_that_is_collapsed_gets_another_example() -> None:
    spec = ({2: Dim("h", min=32, max=2160), 3: Dim("w", min=32, max=2160)},)
    fix = fix_dims(Patches(halved=True), (torch.randn(1, 1, 160, 65),), dynamic_shapes=spec)
    assert fix.proven
    assert fix.plan.sizes.keys() == {"x.shape[3]"}
    assert change(fix, "w").kept == (2160 - 128 + 1, 2129)
    assert fix.plan.range_of("w") == Range(128, 2160)


@pytest.mark.slow  # quick: the example is given up only where it is refused, in test_choose_cases.py
def test_a_limit_of_the_model_is_no_reason_for_another_example() -> None:
    steps: list[str] = []
    spec = ({2: Dim("n", min=32, max=8192)},)
    fix = fix_dims(Table(), (torch.randn(1, 1, 101),), dynamic_shapes=spec, progress=steps.append)
    assert not any("another example" in step for step in steps)
    assert dict(fix.plan.sizes) == {}
    assert change(fix, "n").kept == (319 - 64 + 1, 8161)


class Rest(nn.Module):
    """As many rows as the example has beyond the first two: none."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(x.shape[0] - 2, 3) + x.sum()


def test_a_range_of_which_one_size_is_left_is_a_number() -> None:
    """Of 1 and 2 a run leaves 2; a Dim of one value was spelled, which is none: a ValueError."""
    fix = fix_dims(Rest(), (torch.randn(2, 3),), dynamic_shapes=({0: Dim("n", min=1, max=30)},))
    assert fix.proven
    assert fix.dynamic_shapes == ({0: 2},)
    x = torch.randn(2, 3)
    assert torch.equal(fix.program.module()(x), Rest()(x))


class FirstOfSome(nn.Module):
    """As many parts as the example has, of which an even number of rows is asked."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        halves = x.reshape(2, -1).T[:, :1].expand(-1, 4)
        return torch.split(x, 3)[0], halves


def test_an_example_is_not_moved_where_one_size_is_left_all_the_same() -> None:
    """The answer was 3, with an example of 3, because n % 2 == 0."""
    fix = fix_dims(FirstOfSome(), (torch.randn(6, 4),), dynamic_shapes=({0: Dim("n", min=1, max=13)},))
    assert fix.proven
    assert fix.dynamic_shapes == ({0: 6},)
    (change,) = fix.changes
    assert "example" not in change.after
    assert [reason.text for reason in change.why] == ["(n + 2) // 3 == 2", "n % 2 == 0", "n != 4"]
