"""Offsets of bags at every size: fix-dims cuts no range for those that it made up, and all corners are compared."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

import trtdiag
from trtdiag.fixdims.fix import Outcome
from trtdiag.fixdims.run import fix_dims


def test_places_that_do_not_go_up_end_no_range() -> None:
    """Offsets that are repeated from the example go back; the model's kernel, which does not look, takes them."""

    class Bags(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bags = torch.nn.EmbeddingBag(50, 8, mode="sum", include_last_offset=True)

        def forward(self, items: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
            return self.bags(items, offsets * 7 % 10)

    dims = ({0: Dim("n", min=1, max=500)}, {0: Dim("bounds", min=3, max=64)})
    args = torch.arange(12), torch.tensor([0, 3, 2, 1])  # 0, 1, 4, 7
    fix = fix_dims(Bags().eval(), args, dynamic_shapes=dims)
    assert fix.proven
    assert fix.outcome is Outcome.UNCHANGED


class BagsOfTwo(torch.nn.Module):
    """Bags of two features, as in recommenders, each list of offsets with its last one."""

    def __init__(self) -> None:
        super().__init__()
        self.one = torch.nn.EmbeddingBag(50, 8, mode="sum", include_last_offset=True)
        self.other = torch.nn.EmbeddingBag(50, 8, mode="max", include_last_offset=True)

    def forward(self, items: list[torch.Tensor], offsets: list[torch.Tensor], dense: torch.Tensor) -> torch.Tensor:
        return self.one(items[0], offsets[0]) * self.other(items[1], offsets[1]) + dense


@pytest.mark.slow  # 4.4 s; quick: the test above, and those of lists that go up in tests/frontend/test_made_inputs.py
def test_offsets_of_bags_end_no_range_and_every_corner_is_compared() -> None:
    items, offsets = torch.randint(0, 50, (12,)), torch.tensor([0, 3, 5, 9, 12])
    batch, one, other = Dim("batch", min=2, max=64), Dim("one", min=1, max=500), Dim("other", min=1, max=500)
    dims = ([{0: one}, {0: other}], [{0: batch + 1}, {0: batch + 1}], {0: batch})
    args = ([items, items.flip(0)], [offsets, offsets.clone()], torch.randn(4, 8))
    fix = fix_dims(BagsOfTwo().eval(), args, dynamic_shapes=dims)
    assert fix.proven
    assert fix.outcome is Outcome.UNCHANGED
    found = trtdiag.verify(trtdiag.compile(fix.program, backend="reference"), fix.program)
    assert [(str(each.point), each.skipped) for each in found.results if each.skipped or not each.passed] == []
