"""Which of equal values is chosen is no difference, and what chooses wrongly is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from trtdiag.convert import registry
from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.topk import ordered
from trtdiag.network.layers.reduce import TopKOperation
from trtdiag.network.value import Value
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.state import State
from trtdiag.verification.compare import FLOAT32
from trtdiag.verification.ties import Choice

TIED = torch.tensor([[0.0, 0.0, 0.0, -1.0, 1.5, 0.0, 0.0], [2.0, 2.0, 2.0, 2.0, 1.0, 2.0, 2.0]])
APART = torch.tensor([[0.0, 0.1, 0.2, -1.0, 1.5, 0.3, 0.4], [2.0, 2.1, 2.2, 2.3, 1.0, 2.4, 2.5]])


class Chosen(torch.nn.Module):
    """Places, and rows that are looked up at them."""

    def __init__(self, choose: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.choose = choose

    def forward(self, x: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        places = self.choose(x.relu())
        return places.to(torch.int32), rows[places] * 2


class Scores(Chosen):
    """What is chosen from, beside the rows: nothing but the rows depends on the places."""

    def forward(self, x: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, places = torch.topk(x.relu(), 3)
        return values, rows[places] * 2


def _compiled(module: torch.nn.Module, x: torch.Tensor) -> State:
    rows = torch.randn(7, 3, generator=torch.Generator().manual_seed(5))
    return compile_in_stages((module.eval(), (x, rows), {}, None), CompileOptions(backend="reference", target="10.16"))


def _registry(of: str, run: Callable[[Call], Any]) -> Mapping[str, registry.Converter]:
    found = dict(registry.converters())
    found[of] = replace(found[of], run=run)
    return found


def _places_of_the_least(call: Call) -> Sequence[Value]:
    """topk with the right values, and the places of the least."""
    x, write = call.tensor("self"), call.write
    axis, count = call.axis("dim", x.rank), call.size("k")
    values, _ = ordered(write, x, axis, count, TopKOperation.MAX)
    _, places = ordered(write, x, axis, count, TopKOperation.MIN)
    assert call.outputs[1] is not None
    return [values, write.cast(places, call.outputs[1].dtype)]


def test_topk_of_equal_values() -> None:
    """PyTorch's kernel takes others of them than a stable sort does."""
    found = _compiled(Chosen(lambda x: torch.topk(x, 3)[1]), TIED).verification
    assert found is not None
    assert found.passed
    (result,) = found.results
    assert all(output.tied.startswith("aten.topk.default") for output in result.outputs)
    assert found.culprit is None
    assert any("took another of equal values: no difference" in note for note in found.notes)


@pytest.mark.parametrize("x", [TIED, APART])
def test_other_places_of_other_values_differ_and_topk_is_named(
    x: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The values are right, so that a look at them alone finds the op that reads the places."""
    wrong = _registry("aten.topk.default", _places_of_the_least)
    monkeypatch.setattr(registry, "converters", lambda: wrong)
    found = _compiled(Scores(torch.relu), x).verification
    assert found is not None
    assert found.differs
    assert found.culprit is not None
    assert found.culprit.origin is not None
    assert found.culprit.origin.op == "aten.topk.default"


VALUES = torch.tensor([[3.0, 1.0, 3.0, 3.0, 2.0]])


@pytest.mark.parametrize(
    ("places", "alike"),
    [
        ([[2, 3]], True),
        ([[3, 0]], True),
        ([[0, 4]], False),  # 2.0 in the place of 3.0
        ([[3, 3]], False),  # one twice
        ([[0, 5]], False),  # beyond the end
        ([[-1, 0]], False),
    ],
)
def test_places_of_equal_values(places: list[list[int]], alike: bool) -> None:
    choice = Choice(VALUES, 1, torch.tensor([[0, 2]]))
    assert choice.alike(torch.tensor(places), FLOAT32) is alike
    assert choice.alike(torch.tensor(places, dtype=torch.int32), FLOAT32) is alike


def test_values_that_rounding_sets_apart_are_equal() -> None:
    choice = Choice(VALUES + torch.tensor([[0, 0, 1e-6, 0, 0]]), 1, torch.tensor([[2]]))
    assert choice.alike(torch.tensor([[0]]), FLOAT32)
    assert not choice.alike(torch.tensor([[4]]), FLOAT32)
