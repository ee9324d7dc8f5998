"""Planning engines inside an analysis: stages, options, and faults of ours that must not lose the rest."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

import trtdiag
from tests.harness.rows import thinned
from trtdiag.analysis.fallbacks import Why
from trtdiag.analysis.finding import Severity
from trtdiag.analysis.registry import rules
from trtdiag.errors import InternalError
from trtdiag.fleet.diagnosis import diagnosis_of
from trtdiag.partition.facts import Cause
from trtdiag.pipeline import stages
from trtdiag.report.report import Report


class Between(nn.Module):
    """Two halves of six ops that compute, and cummax, which has no layer, between them and at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.second = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(torch.relu(x * 2 + 1))) - 1
        x = torch.cummax(x, 1).values
        x = torch.relu(self.second(torch.relu(x * 2 + 1))) - 1
        return torch.cummin(x, 1).values


@cache
def exported() -> ExportedProgram:
    return export(Between(), (torch.randn(3, 5),), dynamic_shapes={"x": {0: Dim("n", min=1, max=13)}})


def states(report: Any) -> dict[str, str]:
    return {stage.name: stage.state for stage in report.analysis.stages}


def test_groups_say_what_each_kind_of_op_costs() -> None:
    report = trtdiag.analyze(exported())
    facts = report.analysis.partition
    assert facts is not None, report.analysis.stages
    assert [len(segment.ops) for segment in facts.partitioned.segments] == [6, 6]
    assert [(g.op, g.why, g.engines_saved) for g in facts.groups] == [
        ("aten.cummax.default", Why.NO_CONVERTER, 1),
        ("aten.cummin.default", Why.NO_CONVERTER, 0),
    ]
    assert [group.op for group in facts.ranked] == ["aten.cummax.default"]
    severities = {f.message.split()[0]: f.severity for f in report.findings if f.rule == "OPS501"}
    assert severities == {"aten.cummax.default": Severity.WARNING, "aten.cummin.default": Severity.INFO}
    # 4 bytes, 5 columns, one row and 13: out of the first engine and into the second.
    crossing = facts.groups[0].crossing
    assert (crossing.min, crossing.opt, crossing.max) == (40, 120, 520)
    assert all(state == "ok" for state in states(report).values())


def test_require_full_makes_errors_of_what_is_left() -> None:
    report = trtdiag.analyze(exported(), require_full=True)
    assert {f.rule for f in report.errors} == {"OPS501"}
    assert len(report.errors) == 2
    whole = trtdiag.analyze(
        export(nn.Linear(5, 5), (torch.randn(3, 5),), dynamic_shapes={"input": {0: Dim("n", min=1, max=13)}}),
        require_full=True,
    )
    assert whole.errors == ()


def test_options_reach_the_partition() -> None:
    report = trtdiag.analyze(exported(), keep_in_torch=["aten.linear", "no.such.module"], min_segment_ops=2)
    facts = report.analysis.partition
    assert facts is not None
    assert [f.op for f in facts.partitioned.fallback if f.cause is Cause.KEPT] == ["aten.linear.default"] * 2
    assert "aten.linear.default" not in {group.op for group in facts.groups}
    assert len(facts.partitioned.segments) == 4
    assert any("no.such.module" in text for text in report.analysis.not_checked)


def test_truncate_double_takes_float64_in() -> None:
    class Double(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2 + 1

    program = export(Double(), (torch.randn(3, 5, dtype=torch.float64),))
    before = trtdiag.analyze(program).analysis.partition
    after = trtdiag.analyze(program, truncate_double=True).analysis.partition
    assert before is not None
    assert after is not None
    assert [group.code for group in before.groups] == ["double-precision"]
    assert after.groups == ()
    assert len(after.partitioned.segments) == 1


@pytest.mark.parametrize("fault", [InternalError("a fault", because="b", fix="f", reference="r"), KeyError("x")])
# Quick: the first and the last stage.
@thinned(
    ("function", "stage"),
    [("lower", "lower"), ("with_precision", "precision"), ("plan_types", "types"), ("support", "support")],
    every=3,
)
def test_a_fault_of_ours_loses_only_its_own_stages(
    fault: Exception, function: str, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object, **_named: object) -> None:
        raise fault

    monkeypatch.setattr(f"trtdiag.pipeline.plan_engines.{function}", broken)
    report = trtdiag.analyze(exported())
    before = stages.PLANNING.index(stage)
    after = len(stages.PLANNING) - before - 1
    expected = ["ok"] * before + ["failed"] + ["not run"] * after
    assert [states(report)[name] for name in stages.PLANNING] == expected
    assert report.analysis.partition is None
    assert report.analysis.dtypes is not None
    (untried,) = [text for text in report.analysis.not_checked if "OPS501" in text]
    assert untried.endswith("what they look at could not be worked out")
    message = next(stage.message for stage in report.analysis.stages if stage.state == "failed")
    assert ("a fault" if isinstance(fault, InternalError) else "KeyError: 'x'") in message
    assert report.analysis.fault is fault


def test_a_fault_between_two_stages_is_one_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was told as one of the stage before, whose state stayed "ok": the verdict was "No findings"."""

    def broken(*_arguments: object) -> None:
        raise KeyError("x")

    before = trtdiag.analyze(exported())
    monkeypatch.setattr("trtdiag.pipeline.plan_engines.counted_ranges", broken)
    report = trtdiag.analyze(exported())
    assert [states(report)[name] for name in stages.PLANNING] == ["ok", "ok", "failed", "not run", "not run", "not run"]
    assert report.verdict == "Analysis incomplete: types failed"
    # A sweep must not take warnings for all that there is to say.
    warning = next(finding for finding in before.findings if finding.severity is Severity.WARNING)
    warned = Report(replace(report.analysis, findings=(warning,)), rules=rules())
    assert warned.body["verdict"]["status"] == "warning"
    assert [diagnosis_of(each).status for each in (report, warned, before)] == ["incomplete", "incomplete", "warning"]


def test_without_a_graph_nothing_is_planned() -> None:
    def build() -> Any:
        class Asks(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return x * 2 if x.sum() > 0 else x

        return Asks(), (torch.randn(3),), {}, None

    report = trtdiag.analyze(build)
    assert {states(report)[name] for name in stages.PLANNING} == {"not run"}
