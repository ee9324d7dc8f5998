"""Sizes of 0, which nobody asked for and torch admits where a Dim has no minimum."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.export import Dim

from tests.harness.rows import each
from trtdiag import fix_dims
from trtdiag.fixdims.fix import Outcome

Function = Callable[[torch.Tensor], torch.Tensor]


class Calls(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def _mean_of_some(x: torch.Tensor) -> torch.Tensor:
    return x.sum(0) / max(x.shape[0], 1)


def _not_empty(x: torch.Tensor) -> torch.Tensor:
    assert x.shape[0] > 0
    return x * 2


def _greatest(x: torch.Tensor) -> torch.Tensor:
    return x.amax(0)  # refuses 0 itself, and the program does so, too


@each("row", [(_mean_of_some, "gives other values"), (_not_empty, "takes it, and the model raises")])
def test_what_a_program_gives_at_zero_and_its_model_does_not_is_told(row: tuple[Function, str]) -> None:
    """A mean of no rows was NaN in the program and 0 in the model, without a word."""
    function, gives = row
    fix = fix_dims(Calls(function), (torch.rand(5, 3),), dynamic_shapes=({0: Dim("n", max=30)},))
    assert fix.outcome is Outcome.UNCHANGED
    (note,) = fix.notes
    assert note.startswith("at x.shape[0] = 0, which a Dim without min= admits, the program ")
    assert gives in note
    assert note.endswith("declare it with min=1")


@each("row", [(_greatest, None), (torch.relu, None), (_mean_of_some, 1)])
def test_nothing_is_told_where_both_agree_or_zero_is_not_admitted(row: tuple[Function, int | None]) -> None:
    function, low = row
    fix = fix_dims(Calls(function), (torch.rand(5, 3),), dynamic_shapes=({0: Dim("n", min=low, max=30)},))
    assert fix.proven
    assert fix.notes == ()
