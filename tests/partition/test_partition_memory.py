"""Writes and views: what writes stays in PyTorch, and nothing is read before or after it should be."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.partition.programs import Forward, split
from tests.partition.running import run

X = torch.arange(12.0).reshape(3, 4) - 5.0


def test_an_op_that_writes_is_never_inside() -> None:
    found = split(Forward(lambda x: x.exp().relu_().tanh()), (X,))

    assert found.reasons() == {"relu_": "mutation"}
    assert found.ops() == [["exp"], ["tanh"]]
    found.assert_runs(X)


def test_reads_before_and_after_a_write_are_apart() -> None:
    def forward(x):
        a = x.exp()
        before = a.sum()
        a.add_(1)
        return before + a.sum()

    found = split(Forward(forward), (X,))

    homes = {name: segment.index for segment in found.segments for name in segment.ops}
    assert homes["sum_1"] < homes["sum_2"]
    found.assert_runs(X)


def test_views_of_written_memory_are_left_out() -> None:
    def forward(x):
        a = x.exp()
        row = a.select(0, 1)
        row.mul_(2)
        return a.tanh(), row.relu()

    found = split(Forward(forward), (X,))

    assert found.reasons() == {"select": "view-of-written-memory", "mul_": "mutation"}
    found.assert_runs(X)


def test_a_view_of_an_input_that_is_written_through_it() -> None:
    def forward(x):
        flat = x.view(-1)
        flat.add_(1)
        return x.relu()

    found = split(Forward(forward), (X,))

    assert found.reasons()["view"] == "view-of-written-memory"
    given = X.clone()
    found.assert_runs(given)
    given = X.clone()
    run(found.partitioned, found.module, [given])
    assert torch.equal(given, X + 1)


def test_views_of_inputs_without_writes_are_inside() -> None:
    found = split(Forward(lambda x: (x.view(-1).relu(), x.t())), (X,))
    assert found.partitioned.fallback == ()
    found.assert_runs(X)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(4))
        self.register_buffer("fixed", torch.ones(4))

    def forward(self, x):
        before = self.count * 2
        self.count.add_(x.sum(0))
        return before + self.count * self.fixed


def test_a_buffer_that_is_written_is_no_constant() -> None:
    found = split(Counting(), (X,))

    constants = {name for segment in found.segments for name in segment.constants}
    inputs = {name for segment in found.segments for name in segment.inputs}
    assert constants == {"b_fixed"}
    assert "b_count" in inputs
    found.assert_runs(X)


@pytest.mark.slow  # quick: test_a_buffer_that_is_written_is_no_constant
def test_a_functional_program_writes_nothing() -> None:
    exported = torch.export.export(Counting(), (X,)).run_decompositions({})
    found = split(exported)
    assert found.partitioned.fallback == ()
    assert "b_count" in found.segments[0].inputs
    found.assert_runs(X)


@pytest.mark.slow  # quick: tests/compiling/test_unusual_programs.py
def test_nested_graphs_stay_in_pytorch() -> None:
    def forward(x):
        return torch.cond(x.sum() > 0, lambda y: y.exp(), lambda y: y.tanh(), (x.relu(),)).relu()

    found = split(Forward(forward), (X,))

    assert found.reasons() == {"cond": "nested-graph"}
    assert len(found.segments) == 2
    assert found.segments[1].inputs == ("getitem",)


def test_a_list_used_whole_stays_in_pytorch() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = X
    parts = graph.call_function(torch.ops.aten.split.Tensor, (x, 2))
    parts.meta["val"] = list(X.split(2))
    joined = graph.call_function(torch.ops.aten.cat.default, (parts,))
    joined.meta["val"] = X
    graph.output((graph.call_function(torch.ops.aten.relu.default, (joined,)),))

    found = split(_Bare(torch.fx.GraphModule(nn.Module(), graph)))

    assert found.reasons() == {"split_tensor": "whole-list", "cat_default": "whole-list"}


class _Bare(torch.export.ExportedProgram):
    """Only a graph, without a signature."""

    def __init__(self, module):
        self._graph_module = module
        self._state_dict, self._constants = {}, {}

    @property
    def graph_signature(self):
        return torch.export.ExportGraphSignature([], [])
