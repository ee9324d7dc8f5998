"""Ops that split the program only together: what each finding, the summary and the facts say of them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

import trtdiag
from trtdiag.report.engine_words import together_line


class SideBySide(nn.Module):
    """Five ops, then two ops without a converter beside each other, then five ops and a third one at the end."""

    def __init__(self, *, both: bool) -> None:
        super().__init__()
        self.both = both

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        for _ in range(6):
            x = (x * 2).relu()
        left = torch.cummax(x, 1).values
        x = left + (torch.cummin(x, 1).values if self.both else x)
        for _ in range(6):
            x = (x * 2).relu()
        return x, torch.logcumsumexp(x, 1)


def analyzed(*, both: bool) -> trtdiag.Report:
    shapes = {"x": {0: Dim("rows", min=1, max=9)}}
    return trtdiag.analyze(export(SideBySide(both=both), (torch.randn(3, 7),), dynamic_shapes=shapes), target="11.4")


def endings(report: trtdiag.Report) -> dict[str, str]:
    """What the finding of each op ends with."""
    found = [finding for finding in report.findings if finding.rule == "OPS501"]
    return {finding.message.split(".")[1]: finding.message.rpartition("; ")[2] for finding in found}


def test_two_side_by_side_are_judged_together() -> None:
    report = analyzed(both=True)
    facts = report.analysis.partition
    assert facts is not None
    assert facts.together is not None
    assert (facts.together.segments_before, facts.together.segments_after) == (2, 1)
    assert [group.op for group in facts.joint] == ["aten.cummax.default", "aten.cummin.default"]
    split = "with 1 other reason it splits the program: 2 engines instead of 1"
    assert endings(report) == {"cummax": split, "cummin": split, "logcumsumexp": "it splits no engine"}
    assert together_line(report.analysis) == "without aten.cummax.default and aten.cummin.default: 1 engine"


@pytest.mark.slow  # quick: test_two_side_by_side_are_judged_together
def test_one_that_splits_alone_stays_alone() -> None:
    report = analyzed(both=False)
    facts = report.analysis.partition
    assert facts is not None
    assert [group.op for group in facts.joint] == ["aten.cummax.default"]
    told = {"cummax": "that splits the program: 2 engines instead of 1", "logcumsumexp": "it splits no engine"}
    assert endings(report) == told
    assert together_line(report.analysis) == "without aten.cummax.default: 1 engine"


def test_where_nothing_splits_nothing_is_told() -> None:
    report = trtdiag.analyze(export(nn.Linear(3, 4), (torch.randn(5, 3),)), target="11.4")
    assert report.analysis.partition is not None
    assert report.analysis.partition.joint == ()
    assert together_line(report.analysis) == ""
