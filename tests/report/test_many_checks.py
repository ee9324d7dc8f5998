"""A model that needs a check for each turn of a loop is told what to change, not fifty lines to write."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.export import Dim

from trtdiag.fixdims.run import fix_dims
from trtdiag.report.fix_text import fix_text


class Turns(nn.Module):
    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        total = x.sum()
        for i in range(17):
            if lengths[i].item() > 2:
                total = total + i
        return total


def test_many_checks_are_one_sentence_with_the_line() -> None:
    dims = {"x": {0: Dim("n", min=2, max=64)}, "lengths": None}
    fix = fix_dims(Turns(), (torch.randn(50), torch.arange(3, 20)), dynamic_shapes=dims)
    told = " ".join(fix_text(fix).split())
    assert len(fix.checks) == 17
    assert "17 of them at" in told
    assert "test_many_checks.py:17: compute these numbers from shapes" in told
    assert "torch._check(" not in told
