"""Random graphs with random support: complete, acyclic, maximal, no more segments than torch.fx makes, same results."""

from __future__ import annotations

import operator
from dataclasses import dataclass

import torch
from hypothesis import given, settings, strategies as st
from torch.fx import Graph, GraphModule

from tests.partition.checks import assert_acyclic, assert_complete, assert_maximal, homes_of, torch_segments
from tests.partition.running import plain_run, run
from tests.random_cases import cases
from trtdiag.graph.limit import Limit
from trtdiag.graph.values import NodeReader
from trtdiag.options import PartitionOptions
from trtdiag.partition.facts import Cause
from trtdiag.partition.partition import decide, partition
from trtdiag.partition.segments import assemble
from trtdiag.partition.traffic import ByteCounts
from trtdiag.partition.what_if import if_inside

aten = torch.ops.aten
NO_CONVERTER = Limit("no-converter", "no converter is registered for it")
EVERY_SEGMENT = PartitionOptions(min_segment_ops=0)


@dataclass(frozen=True)
class Made:
    """A graph, and the ops of it that have a limit."""

    module: GraphModule
    limits: dict[str, Limit]


@st.composite
def graphs(draw, most_ops=24):
    """Ops of one and two operands and sorts with two results, reading what any earlier one made; all are 2 x 4."""
    graph = Graph()
    values = []
    for index in range(draw(st.integers(1, 3))):
        node = graph.placeholder(f"x{index}")
        node.meta["val"] = torch.zeros(2, 4)
        values.append(node)
    limits = {}
    for _ in range(draw(st.integers(1, most_ops))):
        kind = draw(st.sampled_from(("one", "one", "two", "two", "sort")))
        first = draw(st.sampled_from(values))
        if kind == "one":
            node = graph.call_function(aten.relu.default, (first,))
        elif kind == "two":
            node = graph.call_function(aten.add.Tensor, (first, draw(st.sampled_from(values))))
        else:
            node = graph.call_function(aten.sort.default, (first,))
        if draw(st.integers(0, 2)) == 0:
            limits[node.name] = NO_CONVERTER
        if kind != "sort":
            node.meta["val"] = torch.zeros(2, 4)
            values.append(node)
            continue
        node.meta["val"] = (torch.zeros(2, 4), torch.zeros(2, 4, dtype=torch.int64))
        for index in range(2):
            part = graph.call_function(operator.getitem, (node, index))
            part.meta["val"] = node.meta["val"][index]
            values.append(part)
    unread = [value for value in values if not value.users]
    graph.output(tuple(unread) + tuple(draw(st.lists(st.sampled_from(values), max_size=2))))
    return Made(GraphModule(torch.nn.Module(), graph), limits)


def arguments_of(module):
    torch.manual_seed(0)
    return [torch.randn(2, 4) for node in module.graph.nodes if node.op == "placeholder"]


@settings(max_examples=cases(150), deadline=None)
@given(graphs())
def test_random_graph_has_the_fewest_segments(made: Made) -> None:
    found = partition(made.module, made.limits, EVERY_SEGMENT)

    assert_complete(found, made.module)
    assert_acyclic(found, made.module)
    assert_maximal(found, made.module)
    assert {entry.node for entry in found.fallback} == set(made.limits)
    assert len(found.segments) <= torch_segments(found, made.module, sizes=False)


@settings(max_examples=cases(100), deadline=None)
@given(graphs(), st.integers(0, 6))
def test_random_graph_computes_the_same(made: Made, least: int) -> None:
    found = partition(made.module, made.limits, PartitionOptions(min_segment_ops=least))
    arguments = arguments_of(made.module)

    for got, wanted in zip(run(found, made.module, arguments), plain_run(made.module, arguments), strict=True):
        assert torch.equal(got, wanted)  # the same ops on the same numbers: not a bit may differ


@settings(max_examples=cases(100), deadline=None)
@given(graphs(), st.integers(1, 6))
def test_random_graph_has_no_small_segment(made: Made, least: int) -> None:
    every = partition(made.module, made.limits, EVERY_SEGMENT)
    found = partition(made.module, made.limits, PartitionOptions(min_segment_ops=least))

    assert_complete(found, made.module)
    assert_acyclic(found, made.module)
    assert_maximal(found, made.module)
    assert len(found.segments) <= len(every.segments)
    if made.limits:
        assert all(segment.work_ops >= least for segment in found.segments)
    else:
        assert len(found.segments) == 1  # one engine holds all: nothing is too small
    sizes = {entry.node for entry in found.fallback if entry.limit.code == "segment-too-small"}
    assert sizes == {entry.node for entry in found.fallback} - set(made.limits)


@settings(max_examples=cases(60), deadline=None)
@given(graphs())
def test_random_graph_what_if_is_the_partition_without_the_limit(made: Made) -> None:
    found = partition(made.module, made.limits, PartitionOptions(min_segment_ops=2))
    for op in {entry.op for entry in found.fallback if entry.cause is Cause.LIMIT}:
        nodes = {entry.node for entry in found.fallback if entry.cause is Cause.LIMIT and entry.op == op}
        answer = if_inside(found, op, nodes)
        left = {name: limit for name, limit in made.limits.items() if name not in nodes}
        again = partition(made.module, left, PartitionOptions(min_segment_ops=2))
        assert set(answer.nodes) == nodes
        assert answer.segments_before == len(found.segments)
        assert answer.segments_after == len(again.segments)
        assert answer.ops_after == sum(len(segment.ops) for segment in again.segments)


@settings(max_examples=cases(60), deadline=None)
@given(graphs())
def test_random_graph_placing_never_adds_traffic(made: Made) -> None:
    found = partition(made.module, made.limits, EVERY_SEGMENT)
    supported, levels = decide(found.plan, found.plan.supported())
    _, early, _, _ = assemble(found.plan, supported, levels, ByteCounts({}))

    assert crossing_bytes(found.boundaries) <= crossing_bytes(early)
    assert homes_of(found) == homes_of(partition(made.module, made.limits, EVERY_SEGMENT))


@settings(max_examples=cases(60), deadline=None)
@given(graphs())
def test_random_graph_is_the_same_with_a_reader_that_knows_it(made: Made) -> None:
    reader = NodeReader()
    for node in made.module.graph.nodes:
        reader.read(node)
    for options in (EVERY_SEGMENT, PartitionOptions(min_segment_ops=2)):
        alone = partition(made.module, made.limits, options)
        shared = partition(made.module, made.limits, options, reader=reader)
        assert shared == alone
        assert shared.plan == alone.plan


def crossing_bytes(boundaries):
    return sum(
        boundary.bytes.opt * ((boundary.producer is not None) + len(boundary.consumers)) for boundary in boundaries
    )
