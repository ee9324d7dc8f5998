"""Elements brought to their places by sorting them, as where places and elements are too many to compare them all."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

from tests.convert.family_samples import converted
from tests.convert.function_program import converted as one_segment
from tests.convert.op_check import OLD_THEN_NEW
from tests.random_cases import some
from trtdiag.convert.layer_writers import scatter
from trtdiag.network import run
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages

ADD, REDUCE, ROWS, PUT = (
    "aten.scatter_add.default",
    "aten.scatter_reduce.two",
    "aten.index_reduce.default",
    "aten.index_put.default",
)


@pytest.fixture(autouse=True)
def _all_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no pair could be compared: the sizes here stay small, but for one test."""
    monkeypatch.setattr(scatter, "MOST_PAIRS", 0)
    torch.manual_seed(5)


def _index(places: int, *shape: int) -> torch.Tensor:
    """Some places without an element, one with many, the ends among them."""
    index = torch.randint(0, places, shape) // 2 * 2
    index.view(-1)[: index.numel() // 3] = places - 1
    index.view(-1)[-1] = 0
    return index


@pytest.mark.parametrize("target", OLD_THEN_NEW)
@pytest.mark.parametrize(("places", "count"), [(1, 1), (2, 3), (16, 17), (17, 256), (300, 257), (5, 1021)])
def test_sums(places: int, count: int, target: str) -> None:
    """Digits of one, two and three; one block of running counts, and several."""
    index = _index(places, count)
    assert converted(ADD, torch.randn(places), 0, index, torch.randn(count), target=target) == 1
    whole = torch.randint(-9, 9, (count, 3))
    assert converted("aten.index_add.default", torch.zeros(places, 3).long(), 0, index, whole, target=target) == 1


# Quick: a sum and a product; means and ends are reduced by the same places.
@pytest.mark.parametrize(
    "reduce",
    [
        "sum",
        "prod",
        pytest.param("mean", marks=pytest.mark.slow),
        pytest.param("amax", marks=pytest.mark.slow),
        pytest.param("amin", marks=pytest.mark.slow),
    ],
)
def test_reductions(reduce: str) -> None:
    # Quick: without what is there; the kernel of few places has both.
    for include_self in some((False, True)):
        kwargs = {"include_self": include_self}
        x, source = torch.randn(3, 23), torch.randn(3, 57)
        assert converted(REDUCE, x, 1, _index(23, 3, 57), source, reduce, kwargs=kwargs, target="8.6") == 1
        if reduce != "sum":
            rows, index = torch.randn(57, 3), _index(23, 57)
            assert converted(ROWS, x.T, 0, index, rows, reduce, kwargs=kwargs, target="8.6") == 1
            whole, more = torch.randint(-9, 9, (23, 3)), torch.randint(-9, 9, (57, 3))
            assert converted(ROWS, whole, 0, index, more, reduce, kwargs=kwargs) == 1


def test_infinite_elements_stay_in_their_place() -> None:
    source = torch.tensor([float("inf"), 1.0, float("nan"), 2.0, float("-inf")])
    assert converted(ADD, torch.zeros(4), 0, torch.tensor([0, 2, 1, 2, 3]), source) == 1


def test_places_counted_from_the_end() -> None:
    index = _index(23, 57) - 23 * (torch.arange(57) % 2)
    assert converted(PUT, torch.randn(23, 3), [index], torch.randn(57, 3), True, target="8.6") == 1


@pytest.mark.parametrize("target", OLD_THEN_NEW)
def test_numbers_of_elements_and_places_that_are_not_known(target: str) -> None:
    """The layers are those of the greatest sizes; fewer elements pass through them, down to one."""
    edges, nodes = Dim("edges", min=1, max=600), Dim("nodes", min=2, max=90)

    def sums(_: Any, x: torch.Tensor, index: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return x.index_add(0, index, rows)

    example = (torch.randn(7, 3), _index(7, 50), torch.randn(50, 3))
    module, segment = one_segment(sums, example, ({0: nodes}, {0: edges}, {0: edges}), target)
    for count, places in ((1, 2), (2, 90), (257, 3), (599, 89), (600, 90)):
        given = torch.randn(places, 3), _index(places, count), torch.randn(count, 3)
        entering = [crossing.entering(each) for crossing, each in zip(segment.inputs, given, strict=True)]
        (got,) = run(segment.network, entering)
        torch.testing.assert_close(got, module(*given), rtol=1e-5, atol=1e-5)


class Graph(torch.nn.Module):
    """Messages along edges, as graph networks write them: one index for all features of an edge."""

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> tuple[torch.Tensor, ...]:
        sent = x[edges[0]]
        places = edges[1].view(-1, 1).expand_as(sent)
        highest = torch.zeros_like(x).scatter_reduce(0, places, sent, "amax", include_self=False)
        mean = x.scatter_reduce(0, places.clone(), sent, "mean")
        return torch.zeros_like(x).scatter_add(0, places, sent), highest, mean


@pytest.mark.slow  # quick: the most pairs of places and indices, in test_indexing_ops.py
def test_more_pairs_than_can_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    edges, nodes = Dim("edges", min=2, max=20_000), Dim("nodes", min=2, max=3_000)
    example = torch.randn(40, 5), torch.randint(0, 40, (2, 90))
    options = CompileOptions("8.6", "reference", verify=False)
    found = compile_in_stages((Graph(), example, {}, ({0: nodes}, {1: edges})), options)
    assert found.plan.partitioned.fallback == ()
    ops = {str(node.target) for node in found.plan.lowered.graph_module.graph.nodes}
    assert {"aten.index_add.default", "aten.index_reduce.default"} <= ops
    assert not [name for name in ops if "scatter" in name]
    for places, count in ((2, 2), (3_000, 20_000)):
        given = torch.randn(places, 5), torch.randint(0, places, (2, count))
        torch.testing.assert_close(found.compiled(*given), Graph()(*given), rtol=1e-5, atol=1e-5)
