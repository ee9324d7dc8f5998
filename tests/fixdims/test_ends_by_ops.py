"""Ranges that end where an op refuses, and no guard says so: by runs on shapes, and from the example on."""

from __future__ import annotations

import torch
from torch.export import Dim

from tests.fixdims.test_on_data import Picky
from tests.harness.rows import each
from trtdiag import fix_dims


class ManyPositive(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = x.gt(0).nonzero().squeeze(1)
        torch._check(found.shape[0] > 6)
        return found * 2


def test_a_check_of_more_than_sizes_let_there_be_ends_the_range() -> None:
    """Sizes of 1 were left out for it, and 2 were refused then: nothing was proven."""
    fix = fix_dims(ManyPositive(), (torch.ones(12),), dynamic_shapes=({0: Dim("n", min=1, max=40)},))
    assert fix.proven
    assert fix.plan.defs[0].range.min == 7
    (change,) = fix.changes
    (line,) = {reason.stack.best.code for reason in change.why if reason.stack.best is not None}
    assert "nonzero()" in line
    program = fix.program.module()
    for size in (7, 8, 31, 40):
        assert program(torch.ones(size)).tolist() == [2 * index for index in range(size)]


class SmallOnes(torch.nn.Module):
    """Indices from 2 on into as many rows as there are beyond the first three of seven."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        rows = x[x.shape[0] - 7 :]
        return rows[torch.arange(rows.shape[0]) // 3 + 2] * y.sum()


def test_a_range_whose_greatest_size_is_the_examples_is_ended_from_there() -> None:
    """No sizes beyond the example's are left, which show what an op asks: nothing was proven."""
    n, m = Dim("n", min=1, max=13), Dim("m", min=1, max=9)
    fix = fix_dims(SmallOnes(), (torch.rand(3, 2), torch.rand(7)), dynamic_shapes=({0: n}, {0: m}))
    assert fix.proven
    assert fix.dynamic_shapes[0] == {0: 3}


class EveryFifth(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x[torch.arange(x.shape[0]) // 5 + 3] * y.sum()


def test_an_op_that_one_size_alone_goes_into_asks_for_no_equal_sizes() -> None:
    """With the other example at its greatest size, rows were said to be as many as columns: n == 4."""
    n, m = Dim("n", min=1, max=13), Dim("m", min=1, max=13)
    args = torch.rand(9, 4), torch.rand(13)
    fix = fix_dims(EveryFifth(), args, dynamic_shapes=({0: n}, {0: m}))
    assert fix.proven
    assert {each.name: (each.range.min, each.range.max) for each in fix.plan.defs} == {"n": (4, 13), "m": (1, 13)}
    program = fix.program.module()
    for size in range(4, 14):
        x, y = torch.rand(size, 4), torch.rand(14 - size)
        assert torch.equal(program(x, y), EveryFifth()(x, y))


@each("example", [12, 64])
def test_an_op_that_refuses_sizes_between_others_has_no_end(example: int) -> None:
    """It refuses 3, 7, 11 and so on: from 12 on the way down to 3 ended at 4, and 4 to 64 were called proven."""
    fix = fix_dims(Picky(), (torch.randn(example),), dynamic_shapes=({0: Dim("n", max=64)},))
    assert not fix.proven
    assert fix.confirmation.exported is False
