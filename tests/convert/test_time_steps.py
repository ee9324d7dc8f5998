"""Recurrent layers step by step where the steps are few, else by loops."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export

from trtdiag.graph import recurrent
from trtdiag.options import CompileOptions, PartitionOptions, Precision
from trtdiag.pipeline.compile import compile_in_stages


def compiled(program: ExportedProgram, target: str, precision: Precision = Precision.KEEP) -> tuple[Any, Counter[str]]:
    """The compiled program, which must be one engine, and how many layers of each kind that has."""
    options = CompileOptions(target, "reference", precision, partition=PartitionOptions(min_segment_ops=0))
    found = compile_in_stages(program, options)
    (one,) = found.converted
    assert not [entry.op for entry in found.plan.partitioned.fallback if entry.computes]
    return found.compiled, Counter(placed.layer.kind for placed in one.network.layers)


# Quick: a loop; step by step they are compared in tests/lower/test_recurrent.py.
@pytest.mark.parametrize(("most", "loops"), [pytest.param(3, 0, marks=pytest.mark.slow), (2, 1)])
@pytest.mark.slow  # quick: a loop, here; states in tests/deployment
def test_a_recurrence_over_many_steps(most: int, loops: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent, "MOST_CELLS", most)  # the edge itself, at a length that is quick to trace
    module = nn.GRU(3, 5, batch_first=True).eval()
    exported = export(module, (torch.randn(2, 3, 3),), dynamic_shapes=({0: Dim("batch", min=1, max=9)},))
    program, kinds = compiled(exported, "11.4")
    assert kinds["Loop"] == loops
    for batch in (1, 9, 5):
        x = torch.randn(batch, 3, 3)
        with torch.no_grad():
            torch.testing.assert_close(program(x), module(x), rtol=1e-5, atol=1e-6)


@pytest.mark.slow  # quick: a recurrence over many steps
def test_many_recurrences_over_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent, "MOST_CELLS", 13)  # the edge itself, at a length that is quick to trace
    module = nn.Sequential(nn.GRU(3, 3, batch_first=True), First(), nn.GRU(3, 3, batch_first=True), First()).eval()
    exported = export(module, (torch.randn(2, 7, 3),), dynamic_shapes=({0: Dim("batch", min=1, max=9)},))
    _, kinds = compiled(exported, "8.6")
    assert kinds["Loop"] == 2


class Both(nn.Module):
    """Two layers in both directions, with states of the caller's."""

    def __init__(self, *, biased: bool) -> None:
        super().__init__()
        self.inner = nn.LSTM(6, 5, 2, bidirectional=True, batch_first=True, bias=biased)

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = list(self.inner.parameters())
        return torch.lstm(x, (h, c), given, self.inner.bias, 2, 0.0, False, True, True)


def inputs(batch: int, steps: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(steps)
    return tuple(torch.randn(shape, generator=generator) for shape in ((batch, steps, 6), (4, batch, 5), (4, batch, 5)))


@pytest.mark.parametrize(
    ("target", "biased", "steps"),
    [
        ("11.4", False, 3),  # quick: a first, an inner and a last step
        *(pytest.param(t, t != "11.4", 7, marks=pytest.mark.slow) for t in ("8.6", "10.16", "11.4", "rtx-1.7")),
    ],
)
@pytest.mark.slow  # quick: a loop, above; both directions in tests/lower/test_recurrent.py
def test_a_recurrence_in_both_directions(
    target: str, biased: bool, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of other numbers of steps than the example's torch exports none; tests/network has the layer at several."""
    monkeypatch.setattr(recurrent, "MOST_CELLS", steps - 1)
    module = Both(biased=biased).eval()
    batch = Dim("batch", min=1, max=7)
    shapes = {"x": {0: batch}, "h": {1: batch}, "c": {1: batch}}
    program, kinds = compiled(export(module, inputs(2, steps), dynamic_shapes=shapes), target)
    assert kinds["Loop"] == 4
    for size in (1, 7, 3):
        with torch.no_grad():
            for got, wanted in zip(program(*inputs(size, steps)), module(*inputs(size, steps)), strict=True):
                torch.testing.assert_close(got, wanted, rtol=1e-5, atol=5e-6)


def test_a_projected_state_stays_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent, "MOST_CELLS", 6)
    module = nn.Sequential(nn.LSTM(3, 5, proj_size=2, batch_first=True), First()).eval()
    exported = export(module, (torch.randn(2, 7, 3),), dynamic_shapes=({0: Dim("batch", min=1, max=9)},))
    found = compile_in_stages(exported, CompileOptions("11.4", "reference", force=True))
    limits = {entry.op: entry.limit for entry in found.plan.partitioned.fallback if entry.computes}
    assert limits["aten.lstm.input"].code == "projection"
    assert "proj_size" in limits["aten.lstm.input"].why


class First(nn.Module):
    """Of what a recurrent layer gives the steps alone."""

    def forward(self, given: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return given[0]
