"""Integer inputs of which a call makes numbers: fix-dims holds them, says why, and what to write instead."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.export import Dim

from trtdiag.fixdims.fix import Outcome
from trtdiag.fixdims.run import fix_dims


class Grid(nn.Module):
    """Positions on a grid, as implicit networks take them; one side by ``linspace``."""

    def forward(self, x: Tensor, rows: int, columns: int) -> Tensor:
        ys = torch.linspace(-1, 1, rows)
        return x[:, None, None] * ys[:, None] * torch.arange(columns)


class Written(nn.Module):
    """The same, as it is advised."""

    def forward(self, x: Tensor, rows: int, columns: int) -> Tensor:
        ys = -1 + torch.arange(rows) * ((1 - -1) / (rows - 1))
        return x[:, None, None] * ys[:, None] * torch.arange(columns)


ARGS = torch.randn(3), 6, 17
ASKED = ({0: Dim("b", max=8)}, Dim.DYNAMIC(min=2, max=64), Dim.DYNAMIC(min=2, max=97))


def test_an_integer_of_which_a_call_makes_a_number_is_held() -> None:
    fix = fix_dims(Grid(), ARGS, dynamic_shapes=ASKED)
    assert fix.outcome is Outcome.CHANGED
    assert fix.confirmation.exported
    (change,) = fix.changes
    assert (change.name, change.after, change.kept) == ("rows", "6", (1, 63))
    assert [why.text for why in change.why] == ["rows == 6"]
    assert "torch.linspace(-1, 1, rows)" in str(change.why[0].stack.best and change.why[0].stack.best.code)
    assert change.model_change is not None
    assert change.model_change.text.startswith("write start + torch.arange(rows) * ((end - start) / (rows - 1)) at ")
    program = fix.program.module()
    for batch, columns in ((1, 2), (5, 31), (8, 97)):
        x = torch.randn(batch)
        assert torch.equal(program(x, 6, columns), Grid()(x, 6, columns))


def test_what_is_advised_keeps_it_open() -> None:
    fix = fix_dims(Written(), ARGS, dynamic_shapes=ASKED)
    assert fix.outcome is Outcome.UNCHANGED
    program = fix.program.module()
    for rows, columns in ((2, 2), (13, 31), (64, 97)):
        x = torch.randn(7)
        # linspace goes from both ends, in another order of rounding.
        assert torch.allclose(program(x, rows, columns), Grid()(x, rows, columns), rtol=1e-5, atol=1e-5)
