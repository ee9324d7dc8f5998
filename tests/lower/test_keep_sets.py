"""Lowering with any set of ops to keep: nothing, one op, or what the converters take."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export
from torch.nn import functional as F

from tests.lower.agreement import assert_lowered_agrees, keep_nothing, targets
from trtdiag.convert.registry import has_converter


class Mixed(nn.Module):
    """A composite op, ops of the core table, ops in place on a whole and on a part."""

    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        y.relu_()
        y[:1].sigmoid_()
        return F.softmax(self.lift(F.silu(y, inplace=True)), -1)


def only_silu(op: object) -> bool:
    return str(op) == "aten.silu.default"


# Quick: no op, and one; what has a converter is kept in every other test here.
@pytest.mark.parametrize("keep", [pytest.param(has_converter, marks=pytest.mark.slow), keep_nothing, only_silu])
def test_an_op_stays_whole_exactly_where_it_is_kept(keep: Callable[[object], bool]) -> None:
    example = (torch.randn(3, 5),)
    exported = export(Mixed(), example, dynamic_shapes=({0: Dim("batch", min=2, max=7)},))
    _, lowered = assert_lowered_agrees(exported, example, keep=keep)
    assert lowered.limits == ()
    for op in (torch.ops.aten.silu.default, torch.ops.aten.linear.default, torch.ops.aten.softmax.int):
        assert (str(op) in targets(lowered)) == keep(op), "in place variants count as their functional form"


def test_what_has_neither_a_converter_nor_a_decomposition_stays() -> None:
    class Counts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.histc(x, 7, -1.0, 1.0)

    example = (torch.randn(11),)
    _, lowered = assert_lowered_agrees(export(Counts(), example), example, keep=keep_nothing)
    assert targets(lowered) == {"aten.histc.default"}
    assert lowered.limits == ()
