"""Indices that sizes decide: what is said of their ends is what the op that takes them refuses, at every small size."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.harness.rows import thinned
from trtdiag.graph.values import NodeReader
from trtdiag.shapes.op_call import OpCall, callee
from trtdiag.shapes.op_demands import demands_of
from trtdiag.shapes.size_values import ends_of, made_of_sizes
from trtdiag.symbolic import free_symbols, holds

SIZES = range(2, 12)
Forward = Callable[..., torch.Tensor]
TABLE = torch.arange(14.0).reshape(7, 2)


def positions(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.embedding(torch.arange(x.shape[0]), TABLE)


def after_the_cache(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    at = torch.arange(x.shape[0], x.shape[0] + y.shape[0]).unsqueeze(0).expand(3, -1)
    return nn.functional.embedding(at, TABLE)


def distances(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return TABLE[torch.arange(x.shape[0])[None] - torch.arange(y.shape[0])[:, None] + 3]


def distances_cut(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    apart = (torch.arange(x.shape[0])[None] - torch.arange(y.shape[0])[:, None]).clamp(-3, 8) + 3
    return TABLE.index_select(0, apart.flatten())


def every_second(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return TABLE.index_select(0, torch.arange(1, x.shape[0], 1).to(torch.int32) * 2)


def the_last(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return TABLE[torch.arange(x.shape[0] + y.shape[0])[x.shape[0] :]]


def of_a_grid(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    rows, columns = torch.meshgrid(torch.arange(x.shape[0]), torch.arange(y.shape[0]), indexing="ij")
    return torch.arange(35.0).reshape(5, 7)[rows, columns]


def gathered(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.expand(2, -1).gather(1, torch.arange(y.shape[0]).expand(2, -1))


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.index_copy(0, torch.arange(y.shape[0]) + 2, y)


def by_pairs(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    behind = torch.div(torch.arange(y.shape[0]) + 4, 3, rounding_mode="floor")
    return x[torch.arange(x.shape[0]) // 2 + 2][:1] + y[behind][:1]


def exported(forward: Forward) -> torch.export.ExportedProgram:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return forward(x, y)

    hints = (5, 4) if forward is not written else (9, 4)
    args = tuple(torch.ones(size) for size in hints)
    shapes = {name: {0: Dim.DYNAMIC} for name in ("x", "y")}
    return torch.export.export(Model(), args, dynamic_shapes=shapes, strict=False)


def demanded(program: torch.export.ExportedProgram, sizes: dict[str, int]) -> bool:
    reader = NodeReader()
    conditions = [
        demand.condition
        for node in program.graph.nodes
        if (op := callee(node)) is not None
        for demand in demands_of(OpCall(node, op, reader))
    ]
    return all(holds(condition, sizes) for condition in conditions if free_symbols(condition) <= sizes.keys())


CASES = (
    positions,
    after_the_cache,
    distances,
    distances_cut,
    every_second,
    the_last,
    of_a_grid,
    gathered,
    written,
    by_pairs,
)


# Quick: the ends and each third; demands of all ops in test_op_demands.py.
@thinned("forward", CASES, every=9)
def test_an_op_refuses_exactly_the_sizes_whose_indices_lie_outside(forward: Forward) -> None:
    program = exported(forward)
    symbols = [str(node.meta["val"].shape[0]) for node in program.graph.nodes if node.name in ("x", "y")]
    seen = set()
    for sizes in product(SIZES, repeat=2):
        try:
            forward(*(torch.ones(size) for size in sizes))
            ran = True
        except (IndexError, RuntimeError):
            ran = False
        seen.add(ran)
        assert demanded(program, dict(zip(symbols, sizes, strict=True))) == ran, f"{sizes}: it runs: {ran}"
    assert seen == {True, False}


def cut_behind(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return TABLE[torch.arange(x.shape[0] + y.shape[0])[: y.shape[0]]]


def changed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    at = torch.arange(x.shape[0])
    at[1:].clamp_(max=3)
    return TABLE[at]


def from_data(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return TABLE[torch.arange(x.shape[0]) + x.to(torch.int64)]


@pytest.mark.parametrize("forward", [cut_behind, changed, from_data])
def test_nothing_is_said_of_values_that_more_than_sizes_decides(forward: Forward) -> None:
    program, reader = exported(forward), NodeReader()
    looked_up: list[Any] = [node for node in program.graph.nodes if str(node.target) == "aten.index.Tensor"]
    assert looked_up
    for node in looked_up:
        (indices,) = node.args[1]
        assert ends_of(indices, reader) is None
        assert not made_of_sizes(indices)
