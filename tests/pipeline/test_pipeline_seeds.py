"""Whole analyses of the situations that users meet first."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export, save
from torch.nn import functional as F

import trtdiag
from trtdiag.dims.facts import Constraint, Verdict
from trtdiag.report.report import Report
from trtdiag.symbolic.ranges import Range


class TwoLinears(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(torch.relu(self.first(x)))
        return torch.cat([torch.cat([y, y], 0)[1:]] * 3, 1)


class Encoder(nn.Module):
    """Features of (h - 1)//4 - 1 rows, pooled in pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 4, 7, 2, 3),
            nn.InstanceNorm2d(4),
            nn.ReLU(),
            nn.Conv2d(4, 4, 3, 2, 1),
            nn.InstanceNorm2d(4),
            nn.Conv2d(4, 4, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.layers(x)
        if y.shape[2] % 2 != 0:
            raise ValueError("pairs of rows are pooled")
        return F.avg_pool2d(y, 2)


class Unshuffle(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.pixel_unshuffle(x, 4) * 2


@cache
def _unshuffled() -> ExportedProgram:
    return export(Unshuffle(), (torch.randn(1, 3, 32, 64),), dynamic_shapes={"x": {2: Dim.AUTO, 3: Dim.AUTO}})


def _rows(report: Report) -> dict[str, Any]:
    return {row.site: row for row in report.analysis.dims.rows}


def _errors(report: Report) -> list[str]:
    return [finding.rule for finding in report.findings if finding.severity.value == "error"]


def _causes(report: Report) -> list[Constraint]:
    return [c for c in report.analysis.dims.constraints if c.verdict is Verdict.BREAKS and not c.follows]


# Quick: saved programs, which have lost more.
@pytest.mark.parametrize("saved", [pytest.param(False, marks=pytest.mark.slow), True])
def test_ranges_of_derived_sizes_are_exact(saved: bool, tmp_path: Path) -> None:
    dims = {0: Dim("batch", min=1, max=10), 1: Dim("seq", max=77)}
    source: Any = (TwoLinears(), (torch.randn(3, 5, 4),), {}, {"x": dims})
    if saved:
        save(export(*source[:2], dynamic_shapes=source[3]), tmp_path / "two.pt2")
        source = tmp_path / "two.pt2"
    report = trtdiag.analyze(source)
    assert _errors(report) == []
    rows = _rows(report)
    assert (rows["x.shape[0]"].range, rows["x.shape[1]"].range) == (Range(1, 10), Range(0, 77))
    shapes = report.analysis.shapes
    assert shapes is not None
    last = list(shapes.tensors.values())[-1][0]
    doubled_less_one, tripled, features = last.dims
    assert doubled_less_one.range == Range(1, 19), "batch 1 is legal: 2*1 - 1, not the 2*2 - 1 of torch's inside"
    assert features.range == Range(3, 3)
    assert tripled.range == Range(0, 231)
    assert all(size.exact for size in last.dims)
    assert last.volume.range == Range(0, 19 * 231 * 3)


ENCODED = (torch.randn(1, 3, 136, 144),)
ENCODED_DIMS = {"h": Dim("h", min=135, max=2160), "w": Dim("w", min=135, max=3840)}


@cache
def _encoder() -> Report:
    return trtdiag.analyze((Encoder(), ENCODED, {}, {"x": {2: ENCODED_DIMS["h"], 3: ENCODED_DIMS["w"]}}))


@pytest.mark.slow  # quick: ranges of derived sizes are exact
def test_the_encoder_that_pools_pairs() -> None:
    report = _encoder()
    h = next(c for c in _causes(report) if c.origin.branch)
    assert h.counterexample == {"h": 137}
    assert h.witness == {"h": 136}
    asked = np.arange(135, 2161)
    allowed = asked[((asked - 1) // 4 - 1) % 2 == 0]
    assert h.kept == (len(allowed), len(asked))
    assert set(allowed % 8) == {5, 6, 7, 0}
    assert "h % 8 in {0, 5..7}" in h.allowed
    frame = h.origin.stack.user
    assert frame is not None
    assert frame.code == "if y.shape[2] % 2 != 0:"
    assert h.proof.proven
    (suggestion,) = [s for s in report.analysis.dims.suggestions if s.spelled.endswith("_h")]
    namespace: dict[str, Any] = {"Dim": Dim}
    exec("\n".join(suggestion.code), namespace)  # the suggested code must run as it stands
    root, derived = namespace["_h"], namespace["h"]
    admitted = np.array([derived.fn(value) for value in range(root.min, root.max + 1)])
    assert np.isin(admitted, allowed).all(), "every admitted size satisfies the guard"
    assert 136 in admitted, "the example stays"
    assert len(admitted) == 254
    assert "GRD301" in _errors(report)
    assert "ART802" in _errors(report)


@pytest.mark.slow  # quick: tests/fixdims/test_from_text.py exports its code
def test_the_suggested_dims_export() -> None:
    """What the report says to declare, pasted: torch 2.11 asks for pairs of columns too, 2.13 does not."""
    namespace: dict[str, Any] = {"Dim": Dim, **ENCODED_DIMS}
    for suggestion in _encoder().analysis.dims.suggestions:
        exec("\n".join(suggestion.code), namespace)
    assert namespace["h"] is not ENCODED_DIMS["h"]
    export(Encoder(), ENCODED, dynamic_shapes={"x": {2: namespace["h"], 3: namespace["w"]}})


@pytest.mark.slow  # quick: test_ranges_of_derived_sizes_are_exact
def test_a_node_stripped_in_the_middle_is_named_and_repaired() -> None:
    exported = export(TwoLinears(), (torch.randn(3, 5, 4),), dynamic_shapes={"x": {0: Dim("batch", min=1, max=10)}})
    node = next(n for n in exported.graph.nodes if n.name == "relu")
    del node.meta["val"]
    report = trtdiag.analyze(exported)
    (finding,) = [f for f in report.findings if f.rule == "MET101"]
    assert finding.severity.value == "warning", "it could be repaired"
    assert finding.places[0].node == "relu"
    assert finding.places[0].frame is not None
    assert "torch.relu" in finding.places[0].frame.code
    shapes = report.analysis.shapes
    assert shapes is not None
    assert shapes.tensors["relu"][0].dims[0].range == Range(1, 10)
    assert "val" not in node.meta


@pytest.mark.slow  # quick: no guard is lost between torch and the report
def test_unbounded_and_broken_are_both_found_in_a_saved_file_alone(tmp_path: Path) -> None:
    save(_unshuffled(), tmp_path / "auto.pt2")
    report = trtdiag.analyze(tmp_path / "auto.pt2")
    assert {"SYM201", "GRD301"} <= set(_errors(report))
    broken = {site: c for c in _causes(report) for site in c.counterexample}
    assert {"x.shape[2]", "x.shape[3]"} <= set(broken)
    for site in ("x.shape[2]", "x.shape[3]"):
        row = _rows(report)[site]
        assert row.range.max is None, "no maximum is invented"
        assert row.suggested
        frame = broken[site].origin.stack.user
        assert frame is not None, "the file has no line for a guard; running its ops again finds the one that asks"
        assert "pixel_unshuffle" in frame.code


def test_no_guard_is_lost_between_torch_and_the_report() -> None:
    exported = _unshuffled()
    dims = trtdiag.analyze(exported).analysis.dims
    found = sum("_guards_code" in c.origin.found_in for c in dims.constraints)
    assert dims.unparsed == ()
    assert found >= len(set(exported._guards_code)) - 1, "two spellings of one condition may merge"


def test_a_failed_export_without_graph_still_reports() -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("no such thing")

    report = trtdiag.analyze((Broken(), (torch.randn(2, 7),), {}, {"x": {0: Dim("n", min=2, max=31)}}))
    assert [f.rule for f in report.findings] == ["ART802"]
    states = {stage.name: stage.state for stage in report.analysis.stages}
    assert states["capture"] == "failed"
    assert states["shapes"] == "not run"
    assert _rows(report)["x.shape[0]"].range == Range(2, 31)
    assert "no such thing" in report.to_html()


@pytest.mark.slow  # the quick run has it of pages in test_report_saved.py and in make budgets
def test_two_runs_give_the_same_report_but_for_times() -> None:
    source = (Unshuffle(), (torch.randn(1, 3, 32, 64),), {}, {"x": {2: Dim.AUTO, 3: Dim.AUTO}})
    first, second = trtdiag.analyze(source), trtdiag.analyze(source)
    assert first.findings == second.findings
    assert first.analysis.dims == second.analysis.dims


@pytest.mark.slow  # the quick run has each option with its rule in tests/rules
def test_options_by_name_reach_the_rules() -> None:
    source = (Unshuffle(), (torch.randn(1, 3, 32, 64),), {}, {"x": {2: Dim.AUTO, 3: Dim.AUTO}})
    only = trtdiag.analyze(source, select="SYM201", target="8.6")
    assert {finding.rule for finding in only.findings} == {"SYM201"}
    assert only.analysis.target == "8.6"
    with pytest.raises(TypeError, match="selct"):
        trtdiag.analyze(source, selct="SYM201")
