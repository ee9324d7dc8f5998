"""The most that sizes from data can be."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from trtdiag.graph.values import NodeReader
from trtdiag.shapes.counts import counted_ranges
from trtdiag.symbolic import Range


class Forward(nn.Module):
    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> object:
        return self.function(x)


def _ends(function: Callable[..., object], least: int = 0) -> list[int | None]:
    """The greatest sizes that data decide, for x (b, 5) with b up to 9, where torch is not asked."""
    exported = export(Forward(function), (torch.randn(4, 5),), dynamic_shapes=({0: Dim("b", max=9)},))
    graph = exported.graph
    symbols = {str(name): Range(0, 9) for name in exported.range_constraints}
    open_ends = {name: Range(least, None) if name.startswith("u") else own for name, own in symbols.items()}
    found = counted_ranges(graph, NodeReader(), open_ends)
    assert all(found[name].min == least for name in found if name.startswith("u"))
    return [found[name].max for name in sorted(found) if name.startswith("u")]


def _twice(x: torch.Tensor) -> torch.Tensor:
    rows = x[x[:, 0] > 0]
    return rows[:, rows.sum(0) > 0]


CASES = {
    "nonzero": (lambda x: (x > 0).nonzero(), [45]),
    "where": (lambda x: torch.where(x[:, 0] > 0), [9]),
    "mask": (lambda x: x[x[:, 0] > 0], [9]),
    "mask of columns": (lambda x: x[:, x[0] > 0], [5]),
    "mask of all": (lambda x: x[x > 0], [45]),
    "masked_select": (lambda x: torch.masked_select(x, x[:1] > 0), [45]),
    "unique": (lambda x: torch.unique(x), [45]),
    "unique along a dim": (lambda x: torch.unique(x, dim=0), [9]),
    "unique_consecutive": (lambda x: torch.unique_consecutive(x), [45]),
    # Columns are chosen among five, whatever number of rows was: that keeps its own end.
    "twice": (_twice, [9, 5]),
}


@pytest.mark.parametrize("name", CASES)
def test_an_op_says_how_many_it_can_find(name: str) -> None:
    function, ends = CASES[name]
    assert _ends(function) == ends


def test_a_least_number_stays() -> None:
    assert _ends(CASES["mask"][0], least=2) == [9]


def test_a_number_has_no_end() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        count = x.sum().int().item()
        torch._check(count >= 0)
        return torch.zeros(count)

    assert _ends(forward) == [None]
