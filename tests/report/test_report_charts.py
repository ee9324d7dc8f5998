"""Pictures of facts: each beside the facts that it is drawn from, and none where these are not there."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
import torch
from sample_analysis import exported_net
from torch import Tensor, nn
from torch.export import Dim

import trtdiag
from trtdiag.engine.built_layers import LayerInfo, LayerTensor
from trtdiag.network.network import Origin
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.report.charts.engine_sizes import engine_sizes_chart
from trtdiag.report.charts.errors import errors_chart
from trtdiag.report.charts.memory import memory_chart
from trtdiag.report.charts.precision import precision_chart
from trtdiag.report.charts.ranges import ranges_chart
from trtdiag.report.charts.svg_shapes import ROOM
from trtdiag.report.charts.times import layers_chart, ways_chart
from trtdiag.report.page import Part
from trtdiag.report.report import Report
from trtdiag.report.view_sizes import input_sizes
from trtdiag.shapes.facts import MemoryEstimate, MemoryStep
from trtdiag.shapes.memory import MOST_STEPS
from trtdiag.verification.facts import OutputError, Point, PointResult, Tolerance, Verification


class Halves(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0] // 3, 3, x.shape[1]).sum(0)


def bars(view: Part, ink: str) -> list[float]:
    """The widths of the rectangles of one ink."""
    return [float(mark["width"]) for mark in view["marks"] if mark["shape"] == "rect" and ink in mark["classes"]]


def drawn(view: Part) -> str:
    return " ".join(mark["text"] for mark in view["marks"] if mark["shape"] == "text")


@pytest.mark.slow  # quick: charts of pages in tests/browser
def test_the_course_of_memory_is_that_of_the_graph() -> None:
    report = trtdiag.analyze(exported_net(3), target="11.4")
    memory = report.analysis.memory
    assert memory is not None
    assert memory.live_bytes is not None
    assert max(step.max_bytes or 0 for step in memory.steps) == memory.live_bytes
    assert memory.live_at in {step.node for step in memory.steps}
    assert all((step.usual_bytes or 0) <= (step.max_bytes or 0) for step in memory.steps)
    view = memory_chart(memory)
    assert view is not None
    assert f"peak: {memory.live_at}" in drawn(view)
    assert memory.live_at in view["label"]
    assert "steps" in report.body["memory"]


def test_a_course_without_a_maximum_is_drawn_at_usual_sizes() -> None:
    program = torch.export.export(nn.Linear(5, 7), (torch.randn(3, 5),), dynamic_shapes={"input": {0: Dim("n", min=2)}})
    memory = trtdiag.analyze(program).analysis.memory
    assert memory is not None
    assert [step.max_bytes for step in memory.steps] == [None] * len(memory.steps)
    assert max(step.usual_bytes or 0 for step in memory.steps) == 4 * 3 * (5 + 7)
    view = memory_chart(memory)
    assert view is not None
    assert [each["text"].partition(",")[0] for each in view["legend"]] == ["weights", "tensors alive at usual sizes"]


@pytest.mark.slow  # quick: the course of memory is that of the graph
def test_a_long_course_is_shown_in_few_stretches() -> None:
    memory = trtdiag.analyze(exported_net(12), target="11.4").analysis.memory
    assert memory is not None
    assert len(memory.steps) == MOST_STEPS
    assert max(step.max_bytes or 0 for step in memory.steps) == memory.live_bytes


@pytest.mark.parametrize("steps", [(), (MemoryStep("a", None, None),), (MemoryStep("a", 0, 0),)])
def test_nothing_is_drawn_of_a_course_that_is_not_known(steps: tuple[MemoryStep, ...]) -> None:
    assert memory_chart(MemoryEstimate(7, None, None, None, None, (), steps)) is None


@pytest.mark.slow  # quick: the sizes in one table, test_report_sections.py
def test_ranges_show_what_is_asked_allowed_and_kept() -> None:
    dims = {"x": {0: Dim("rows", min=1, max=40)}}
    report = trtdiag.analyze((Halves(), (torch.randn(12, 5),), {}, dims), target="11.4")
    view = ranges_chart(input_sizes(report.analysis))
    assert view is not None
    assert drawn(view).startswith("rows 1..40 allowed multiples of 3 kept 6..39 in steps of 3")
    teeth = [len(re.findall("M", mark["path"])) for mark in view["marks"] if mark["shape"] == "path"]
    assert teeth == [12, 12]  # torch takes a single row of three for a fixed size
    assert view["table"]["rows"] == [
        ("rows", "1..40", "rows >= 6 with rows % 3 == 0 (multiples of 3)", "6..39 in steps of 3")
    ]
    assert view["label"].endswith("; 1 of them allow less than was asked.")
    rows = [replace(row, state="unread") if row.state != "static" else row for row in report.analysis.dims.rows]
    doubtful = replace(report.analysis, dims=replace(report.analysis.dims, rows=tuple(rows)))
    view = ranges_chart(input_sizes(doubtful))
    assert view is not None
    assert view["label"].endswith("; 1 of them allow less than was asked, as far as guards are known.")


@pytest.mark.slow  # quick: ranges show what is asked, allowed and kept
def test_ranges_are_not_drawn_where_all_is_as_asked() -> None:
    report = trtdiag.analyze(exported_net(2), target="11.4")
    assert ranges_chart(input_sizes(report.analysis)) is None
    assert report.rendering.view["dims"]["ranges"] is None


def error(max_abs: float, allowed: float = 1e-3, *, passed: bool = True) -> OutputError:
    return OutputError("y", "float32", (3,), max_abs, 0.0, allowed, passed)


def verification(*results: PointResult) -> Verification:
    return Verification(results, Tolerance(1e-4, 1e-6, "of float32"))


def test_differences_stand_beside_their_tolerance_on_a_logarithmic_scale() -> None:
    points = [Point(str(size), {"s0": size}) for size in (1, 7, 31)]
    found = verification(
        PointResult(points[0], (error(1e-6), error(1e-7))),
        PointResult(points[1], (error(0.0),)),
        PointResult(points[2], (error(1e-1, passed=False),)),
        PointResult(Point("max", {"s0": 99}), skipped="no memory"),
    )
    view = errors_chart(found, {"s0": "batch"})
    assert view is not None
    assert drawn(view).startswith("batch=1 1e-06 of 0.001 batch=7 0 of 0.001 batch=31 0.1 of 0.001")
    room = ROOM
    assert bars(view, "series-1") == [1.0, 1.0]  # the least one begins the axis, and 0 has no logarithm
    assert bars(view, "wrong") == [room]
    ticks = {mark["path"].partition(" ")[0] for mark in view["marks"] if mark["classes"] == "limit"}
    left = next(float(mark["x"]) for mark in view["marks"] if mark["shape"] == "rect")
    assert [float(tick[1:]) for tick in ticks] == [pytest.approx(left + room * 3 / 5, abs=0.1)]
    assert view["label"].endswith("1 are beyond it.")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_difference_without_a_number_fills_its_row(value: float) -> None:
    view = errors_chart(verification(PointResult(Point("min", {}), (error(value, passed=False),))), {})
    assert view is not None
    assert bars(view, "wrong") == [ROOM]
    assert errors_chart(verification(PointResult(Point("min", {}), failed="died")), {}) is None


def test_ways_to_run_stand_by_their_median() -> None:
    ways = [
        {"way": "trtdiag", "ms": {"median": 2.0, "low": 1.5, "high": 4.0}},
        {"way": "eager", "ms": {"median": 3.0, "low": 2.0, "high": 8.0}},
        {"way": "onnx", "ms": None},
    ]
    view = ways_chart("Time of a call at h=7", ways)
    assert view is not None
    # The longest median fills half, so that a tenth of 8 ms does not make medians alike.
    assert bars(view, "series-1") == [pytest.approx(ROOM / 3, abs=0.1), ROOM / 2]
    assert max(bars(view, "spread")) <= ROOM * 4 / 6
    assert [row[0] for row in view["table"]["rows"]] == ["trtdiag", "eager"]
    assert ways_chart("none", ways[2:]) is None


def layer(name: str, time_ms: float | None, ops: int = 1, dtype: str = "float32") -> LayerInfo:
    tensor = LayerTensor("t", dtype, "", (1,))
    origins = tuple(Origin("aten.add.Tensor", f"{name}_{at}", None) for at in range(ops))
    return LayerInfo(name, "kind", origins, True, (tensor,), (tensor,), "", time_ms)


def test_the_layers_that_take_longest_stand_first() -> None:
    many = [layer(f"l{at}", at + 1.0, ops=at % 2) for at in range(20)]
    view = layers_chart(many)
    assert view is not None
    names = [row[0] for row in view["table"]["rows"]]
    assert names[:2] == ["l19_0", "kind"]  # a layer without an op has the name of its kind
    assert names[-1] == "8 others"
    shares = [float(row[2].rstrip("%")) for row in view["table"]["rows"]]
    assert sum(shares) == pytest.approx(100, abs=0.05 * len(shares))
    assert layers_chart([layer("a", None), layer("b", math.nan)]) is None
    twice = layers_chart([layer("a", 3.0), replace(layer("a", 2.0), kind="Shuffle"), layer("b", 1.0)])
    assert twice is not None
    assert [row[0] for row in twice["table"]["rows"]] == ["a_0 kind", "a_0 Shuffle", "b_0"]


def test_precision_is_the_share_of_ops_by_dtype() -> None:
    class Mixed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[:, torch.arange(3)].double().cumsum(1).float() * 2

    facts = trtdiag.analyze(torch.export.export(Mixed(), (torch.randn(2, 5),))).analysis.partition
    assert facts is not None
    view = precision_chart(facts, [layer("a", 1.0, dtype="float16")])
    assert view is not None
    told = {(row[0], row[1]) for row in view["table"]["rows"]}
    assert {("ops in PyTorch", "float64"), ("layers as built", "float16")} <= told
    assert sum(bars(view, "series")) == pytest.approx(2 * ROOM, abs=1)  # two rows, each full
    whole = trtdiag.analyze(exported_net(2), target="11.4").analysis.partition
    assert whole is not None
    assert precision_chart(whole) is None


@pytest.mark.slow  # quick: pictures have their numbers, in test_browser_charts.py
def test_engine_sizes_stand_by_gpu_generation() -> None:
    made = compile_in_stages(exported_net(1), CompileOptions("11.4", "reference")).report.analysis.compilation
    assert made is not None
    (engine,) = made.engines
    assert engine_sizes_chart(made.engines) is None
    two = [replace(engine, gpu_bytes={"sm89": 100, "sm120": 300}), replace(engine, gpu_bytes={"sm89": 50})]
    view = engine_sizes_chart(two)
    assert view is not None
    room = ROOM
    assert bars(view, "engine") == [room / 2, room]
    assert view["table"]["rows"] == [("sm89", "150 B", "150"), ("sm120", "300 B", "300")]


@pytest.fixture(scope="module")
def shallow() -> Report:
    return trtdiag.analyze(exported_net(1), target="11.4")


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '"><svg onload=x>', "\u202egnp", "a" * 5000])
def test_names_in_pictures_stay_text(name: str, shallow: Report) -> None:
    report = shallow
    steps = (MemoryStep(name, 7, 70), MemoryStep("b", 7, 7))
    memory = MemoryEstimate(5, 1, 70, name, None, (), steps)
    page = replace(report, analysis=replace(report.analysis, memory=memory)).to_html()
    assert "<script>alert(1)" not in page
    assert "<svg onload" not in page
    assert "\u202e" not in page
    assert max(map(len, re.findall(r"<text[^>]*>([^<]*)</text>", page))) < 1000
