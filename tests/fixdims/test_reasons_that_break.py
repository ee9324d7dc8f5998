"""What fix-dims gives for a reason leaves out some of the asked sizes: conditions that all of them satisfy are none."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

import trtdiag
from trtdiag.fixdims.changes import smallest_broken
from trtdiag.symbolic import Range, Sym, parse_condition

BOX = {"h": Range(9, 127), "w": Range(9, 127)}


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("64*((h + -h % 8) // 8)*((w + -w % 8) // 8) == (h + -h % 8)*(w + -w % 8)", None),
        ("(h + -h % 8) % 8 == 0", None),
        ("h*w >= 81", None),
        ("h*w >= 82", {"h": 9, "w": 9}),
        ("h % 8 == 0", {"h": 9}),
        ("h <= 126", {"h": 127}),
    ],
)
def test_which_asked_sizes_break_a_condition(text: str, broken: dict[str, int] | None) -> None:
    assert smallest_broken(parse_condition(text, Sym), BOX, limit_s=5.0) == broken


class Padded(nn.Module):
    """Windows of 8x8 over a map that is padded to them, and cut back."""

    def forward(self, x: Tensor) -> Tensor:
        _, high, wide = x.shape
        padded = F.pad(x, (0, -wide % 8, 0, -high % 8))
        batch, h, w = padded.shape
        windows = padded.view(batch, h // 8, 8, w // 8, 8).transpose(2, 3).reshape(-1, 64).softmax(1)
        back = windows.view(batch, h // 8, w // 8, 8, 8).transpose(2, 3).reshape(batch, h, w)
        return back[:, :high, :wide] * 2


@pytest.mark.slow  # quick: test_which_asked_sizes_break_a_condition
def test_the_windows_of_a_padded_map_are_no_reason() -> None:
    dims = {"x": {0: Dim("batch", min=1, max=4), 1: Dim("h", min=9, max=127), 2: Dim("w", min=9, max=127)}}
    fix = trtdiag.fix_dims(Padded(), (torch.randn(2, 40, 56),), dynamic_shapes=dims)
    assert fix.proven
    assert {change.name for change in fix.changes} == {"h", "w"}
    for change in fix.changes:
        assert [reason.by for reason in change.why if not reason.counterexample] == []
        assert len(change.why) == 1
        assert change.model_change is not None
        assert "index_select" in change.model_change.text
        assert "remain" not in change.model_change.note
