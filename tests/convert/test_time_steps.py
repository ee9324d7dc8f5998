"""A recurrent layer that is not written step by step says why, and what to do."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim, export

import trtdiag
from trtdiag.graph import recurrent


@pytest.mark.parametrize(("most", "stays"), [pytest.param(7, False, marks=pytest.mark.slow), (6, True)])
def test_a_recurrence_over_many_steps(most: int, stays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent, "MOST_CELLS", most)  # the edge itself, at a length that is quick to trace
    module = nn.GRU(3, 5, batch_first=True).eval()
    exported = export(module, (torch.randn(2, 7, 3),), dynamic_shapes=({0: Dim("batch", min=1, max=9)},))

    report = trtdiag.analyze(exported, target="11.4")

    partition = report.analysis.partition
    assert partition is not None
    limits = {entry.op: entry.limit for entry in partition.partitioned.fallback if entry.op.startswith("aten.gru")}
    assert bool(limits) == stays
    if stays:
        limit = limits["aten.gru.input"]
        assert limit.code == "time-steps"
        assert "its cell 7 times (7 time steps)" in limit.why
        assert "fixed number of time steps" in limit.fix
        assert [found.rule for found in report.findings if "aten.gru" in found.message] == ["OPS502"]


@pytest.mark.slow  # quick: a recurrence over many steps
def test_many_recurrences_over_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent, "MOST_CELLS", 13)  # the edge itself, at a length that is quick to trace
    module = nn.Sequential(nn.GRU(3, 3, batch_first=True), First(), nn.GRU(3, 3, batch_first=True), First()).eval()
    exported = export(module, (torch.randn(2, 7, 3),), dynamic_shapes=({0: Dim("batch", min=1, max=9)},))

    report = trtdiag.analyze(exported, target="8.6")

    partition = report.analysis.partition
    assert partition is not None
    limits = [entry.limit for entry in partition.partitioned.fallback if entry.op == "aten.gru.input"]
    assert [limit.code for limit in limits] == ["time-steps", "time-steps"]
    assert "7 times (7 time steps), it and all that are no longer more than 13 times together" in limits[0].why


class First(nn.Module):
    """Of what a recurrent layer gives the steps alone."""

    def forward(self, given: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return given[0]
