"""Shapes of graphs that partitioners get wrong, by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.partition.programs import Forward, split
from trtdiag.graph.limit import Limit
from trtdiag.options import PartitionOptions
from trtdiag.partition.partition import partition

X = torch.arange(12.0).reshape(3, 4) - 5.0


def test_all_supported_is_one_segment_however_small() -> None:
    found = split(nn.Linear(4, 7), (X,), options=PartitionOptions(min_segment_ops=5))

    assert found.ops() == [["linear"]]
    (segment,) = found.segments
    assert segment.inputs == ("input",)
    assert segment.constants == ("p_weight", "p_bias")
    assert found.partitioned.fallback == ()
    found.assert_runs(X)


def test_diamond_with_one_unsupported_side() -> None:
    def forward(x):
        a = x.relu()
        return a.exp() + a.cumsum(0)

    found = split(Forward(forward), (X,), without=("aten.cumsum",))

    assert [sorted(ops) for ops in found.ops()] == [["relu"], ["add", "exp"]]
    found.assert_runs(X)


def test_diamond_with_the_unsupported_side_unused_by_the_join() -> None:
    def forward(x):
        a = x.relu()
        return a.exp() + a.tanh(), a.cumsum(0)

    found = split(Forward(forward), (X,), without=("aten.cumsum",))

    assert found.ops() == [["relu", "exp", "tanh", "add"]]
    assert found.segments[0].outputs == ("relu", "add")
    found.assert_runs(X)


def test_skip_connection_around_an_unsupported_op() -> None:
    def forward(x):
        a = x.relu()
        return (a.cumsum(0) + a).exp()

    found = split(Forward(forward), (X,), without=("aten.cumsum",))

    assert found.ops() == [["relu"], ["add", "exp"]]
    crossing = {b.tensor: b for b in found.partitioned.boundaries}
    assert crossing["relu"].producer == 0
    assert crossing["relu"].consumers == (1,)
    assert crossing["relu"].read_by_torch
    assert [step.segment for step in found.partitioned.steps] == [0, None, 1]
    found.assert_runs(X)


def test_two_towers_share_engines() -> None:
    def forward(x, y):
        for _ in range(3):
            x = x.relu().cumsum(0).exp()
        return x.sum() + y.tanh().cumsum(1).relu().sum()

    found = split(Forward(forward), (X, X), without=("aten.cumsum",))

    # The longer tower alternates three times with a last run after it; the shorter fits into those.
    assert len(found.segments) == 4
    assert found.ops()[0].count("relu") == 1
    assert "tanh" in found.ops()[0]
    found.assert_runs(X, X + 1)


def test_towers_without_unsupported_ops_are_one_segment() -> None:
    found = split(Forward(lambda x, y: (x.relu(), y.exp())), (X, X))

    assert found.ops() == [["relu", "exp"]]
    found.assert_runs(X, X)


def test_unsupported_op_with_and_without_a_side_branch() -> None:
    straight = split(Forward(lambda x: x.relu().cumsum(0).relu()), (X,), without=("aten.cumsum",))
    assert straight.ops() == [["relu"], ["relu"]]

    def forward(x):
        a = x.relu()
        b = a.exp()  # as well after the unsupported op, but its reader is
        return a.cumsum(0).relu() * 2 + b

    branched = split(Forward(forward), (X,), without=("aten.cumsum",))
    # exp moves to its reader: one tensor less leaves the first engine.
    assert [sorted(ops) for ops in branched.ops()] == [["relu"], ["add", "exp", "mul", "relu"]]
    branched.assert_runs(X)


def test_an_op_with_a_small_result_stays_at_its_large_operand() -> None:
    def forward(x):
        a = x.relu()
        return a.sum(0).cumsum(0).relu() * a.amax()

    found = split(Forward(forward), (torch.ones(64, 4),), without=("aten.cumsum",))

    # a.amax() could wait for the second engine, but then all of ``a`` would cross for one number.
    assert found.ops() == [["relu", "sum", "amax"], ["relu", "mul"]]
    assert found.segments[0].outputs == ("sum_1", "amax")


def test_getitem_stays_with_its_producer() -> None:
    def forward(x):
        first, second = x.relu().split(2, 1)
        return first.exp(), second.cumsum(0).relu()

    found = split(Forward(forward), (X,), without=("aten.cumsum",))
    assert found.segments[0].elements == ("getitem", "getitem_1")
    assert found.segments[0].outputs == ("getitem_1", "exp")
    found.assert_runs(X)

    found = split(Forward(forward), (X,), without=("aten.split",))
    assert found.segments[1].inputs == ("getitem", "getitem_1")
    assert all("getitem" in step.torch_nodes for step in found.partitioned.steps if step.segment is None)
    found.assert_runs(X)


def test_a_limit_on_getitem_is_its_producers() -> None:
    exported = torch.export.export(Forward(lambda x: x.split(2, 1)[1].relu()), (X,))
    found = partition(exported.graph_module, {"getitem_1": Limit("odd", "odd")}, PartitionOptions(min_segment_ops=0))
    assert [entry.node for entry in found.fallback if entry.computes] == ["split"]


def test_outputs_that_are_inputs_or_constants_cross_nothing() -> None:
    class Given(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(4))

        def forward(self, x, y):
            return x, self.scale, y.relu() * self.scale, 3

    found = split(Given(), (X, X))
    (segment,) = found.segments
    assert segment.inputs == ("y",)
    assert segment.constants == ("b_scale",)
    assert segment.outputs == ("mul",)
    assert [b.tensor for b in found.partitioned.boundaries] == ["y", "mul"]
    found.assert_runs(X, X + 1)


def test_a_program_of_no_ops() -> None:
    found = split(Forward(lambda x: (x,)), (X,))
    assert found.segments == found.partitioned.fallback == found.partitioned.steps == ()
    found.assert_runs(X)


def test_nothing_supported() -> None:
    found = split(Forward(lambda x: x.cumsum(0).cumsum(1)), (X,), without=("aten.cumsum",))
    assert found.segments == ()
    assert len(found.partitioned.fallback) == 2
    found.assert_runs(X)


def test_get_attr_weights_are_constants() -> None:
    module = torch.export.export(nn.Linear(4, 7), (X,)).module()
    found = partition(module, {}, PartitionOptions(min_segment_ops=0))  # a call of the guards stays outside
    ours = [segment for segment in found.segments if "linear" in segment.ops]
    assert [segment.constants for segment in ours] == [("weight", "bias")]


def test_an_op_whose_result_nobody_reads_is_run_nowhere() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = X
    dead = graph.call_function(torch.ops.aten.exp.default, (x,))
    dead = graph.call_function(torch.ops.aten.tanh.default, (dead,))
    live = graph.call_function(torch.ops.aten.relu.default, (x,))
    graph.output((live,))

    found = partition(graph, {}, PartitionOptions(require_full=True))

    assert [(entry.node, entry.limit.code, entry.computes) for entry in found.fallback] == [
        ("exp_default", "result-unused", False),
        ("tanh_default", "result-unused", False),
    ]
    assert [step.segment for step in found.steps] == [0]
    assert found.segments[0].ops == ("relu_default",)


@pytest.mark.parametrize("name", ["x", "output", "nowhere"])
def test_a_limit_on_what_is_no_op_is_refused(name: str) -> None:
    module = torch.export.export(Forward(lambda x: x.relu()), (X,)).graph_module
    module.graph.find_nodes(op="placeholder")[0].name = "x"
    with pytest.raises(ValueError, match=name):
        partition(module, {name: Limit("odd", "odd")}, PartitionOptions())


def test_the_same_graph_gives_the_same_partition() -> None:
    def forward(x, y):
        return x.relu().cumsum(0).exp() + y.tanh(), y.cumsum(0).relu()

    exported = torch.export.export(Forward(forward), (X, X))
    assert (
        split(exported, without=("aten.cumsum",)).partitioned == split(exported, without=("aten.cumsum",)).partitioned
    )
