"""A model that needs a check for each turn of a loop is told what to change, not fifty lines to write."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from trtdiag.fixdims.run import fix_dims
from trtdiag.report.fix_text import fix_text
from trtdiag.report.fix_words import MOST_CHECKS

TURNS = 5


class Turns(nn.Module):
    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        total = x.sum()
        for i in range(TURNS):
            if lengths[i].item() > 2:
                total = total + i
        return total


@pytest.mark.slow  # quick: long lists are cut in test_fix_text.py
def test_many_checks_are_one_sentence_with_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtdiag.report.fix_text.MOST_CHECKS", TURNS - 1)  # the edge itself: each check is an export
    assert MOST_CHECKS >= TURNS
    dims = {"x": {0: Dim("n", min=2, max=64)}, "lengths": None}
    fix = fix_dims(Turns(), (torch.randn(50), torch.arange(3, 3 + TURNS)), dynamic_shapes=dims)
    told = " ".join(fix_text(fix).split())
    assert len(fix.checks) == TURNS
    assert f"{TURNS} of them at" in told
    line = Turns.forward.__code__.co_firstlineno + 3
    assert f"test_many_checks.py:{line}: compute these numbers from shapes" in told
    assert "torch._check(" not in told
