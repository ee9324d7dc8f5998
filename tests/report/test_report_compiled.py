"""What became of compiling, in every format: engines, the comparison with the original, what stays open."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from html import unescape
from io import StringIO
from itertools import count

import jsonschema
import pytest
import torch
from report_text import json_report, sarif_report
from rich.console import Console
from sample_analysis import FRAME, HOSTILE_NAMES, clean_analysis
from torch import Tensor, nn
from torch.export import Dim

from tests.compiling.programs import exported_mlp, registry_with_wrong_relu
from trtdiag.analysis.compilation import CompilationFacts
from trtdiag.analysis.not_checked import NO_ENGINE_BUILT, NOTHING_RUN, after_compiling
from trtdiag.analysis.stage_timing import StageTiming
from trtdiag.convert import registry
from trtdiag.network.network import Origin
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline import compare
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.report.compile_text import engines_text, verification_text
from trtdiag.report.json_report import SCHEMA_PATH
from trtdiag.report.report import Report
from trtdiag.report.shown_paths import place
from trtdiag.report.verdict import verdict
from trtdiag.verification.facts import Culprit, OutputError, Point, PointResult, Tolerance, Verification
from trtdiag.verification.limits import VerifyLimits
from trtdiag.verification.run import Comparison

NAN = float("nan")


def compiled(limits: VerifyLimits | None = None, **options: object) -> Report:
    asked = CompileOptions(target="11.4", backend="reference", **options)
    return compile_in_stages(exported_mlp(), asked, limits=limits).report


@pytest.fixture(scope="module")
def verified() -> Report:
    return compiled()


@pytest.fixture(scope="module")
def wrong() -> Report:
    with pytest.MonkeyPatch.context() as patch:
        converters = registry_with_wrong_relu()
        patch.setattr(registry, "converters", lambda: converters)
        return compiled()


def facts_of(report: Report) -> CompilationFacts:
    assert report.analysis.compilation is not None
    return report.analysis.compilation


def section(report: Report) -> str:
    found = re.search(r'<section id="compiled".*?</section>', report.to_html(), re.DOTALL)
    assert found is not None
    return unescape(found[0])


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def validated(text: str) -> dict[str, object]:
    def refused(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    body = json.loads(text, parse_constant=refused)
    jsonschema.Draft202012Validator(json.loads(SCHEMA_PATH.read_text())).validate(body)
    return body


def test_the_page_has_every_point_and_the_sizes_of_the_engine(verified: Report) -> None:
    found = facts_of(verified)
    assert found.verification is not None
    html = section(verified)
    assert html.count('<tr class="point-agrees">') == len(found.verification.results) > 5
    text = words(html)
    (engine,) = found.engines
    assert f"4 of 4 ops in 1 engine of {engine.engine_bytes / 1024:.1f} KiB" in text
    assert "in x float32[x.shape[0], x.shape[1], 5] [1, 2, 5] [4, 6, 5] [9, 33, 5]" in text
    assert "out mul float32[x.shape[0], x.shape[1], 3]" in text
    assert engine.layers is not None
    assert engine.layers["MatrixMultiply"] == 2
    assert "2 MatrixMultiply" in text


def test_the_verdict_and_the_open_points_follow(verified: Report) -> None:
    points = len(facts_of(verified).verification.results)
    assert verified.verdict.startswith(f"Compiled into 1 engine and verified at {points} sets of sizes; no findings")
    assert verdict(verified.analysis).uncovered.startswith("No TensorRT engine was built: the reference backend")
    (left,) = verified.analysis.not_checked
    assert left.startswith("TensorRT: the reference backend built the engines")
    names = [stage.name for stage in verified.analysis.stages]
    assert names[-4:] == ["convert", "build", "assemble", "verify"]
    page = words(verified.to_html())
    assert all(re.search(rf"{name} ok \d", page) for name in names)


def test_json_has_the_same(verified: Report) -> None:
    body = validated(verified.to_json())["compiled"]
    (engine,) = body["engines"]
    assert engine["ops"] == 4
    assert engine["bytes"] == facts_of(verified).engines[0].engine_bytes
    assert [(p["min"], p["opt"], p["max"]) for p in engine["inputs"][0]["profile"]] == [
        (1, 4, 9),
        (2, 6, 33),
        (5, 5, 5),
    ]
    assert body["verification"]["passed"]
    corner = {tuple(sorted(point["sizes"].values())) for point in body["verification"]["points"]}
    assert {(1, 2), (9, 33)} <= corner


def test_a_program_that_differs_is_an_error_with_its_line(wrong: Report) -> None:
    points = len(facts_of(wrong).verification.results)
    assert wrong.verdict.startswith(f"Compiled into 1 engine, but it DIFFERS from the original at {points} of {points}")
    html = section(wrong)
    assert html.count('<tr class="point-differs">') == points
    assert "It begins with aten.relu.default (relu)" in words(html)
    assert re.search(r'<span class="line current">.*?<code> *y = torch.relu\(self.first\(x\)\)</code>', html)
    body = validated(wrong.to_json())
    assert body["verdict"]["status"] == "error"
    culprit = body["compiled"]["verification"]["culprit"]
    assert (culprit["op"], culprit["layer"]) == ("aten.relu.default", "Activation")
    assert culprit["source"]["code"].strip() == "y = torch.relu(self.first(x))"
    told = json.loads(wrong.to_sarif())["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    (error,) = [each["message"]["text"] for each in told if each["level"] == "error"]
    assert "DIFFERS" in error
    assert "aten.relu.default (relu)" in error


def test_without_a_comparison_nothing_is_called_verified() -> None:
    report = compiled(verify=False)
    assert report.verdict.startswith("Compiled into 1 engine, not compared with the original;")
    assert NOTHING_RUN in report.analysis.not_checked
    assert NO_ENGINE_BUILT not in report.analysis.not_checked
    assert "was not compared with the original" in words(section(report))
    assert validated(report.to_json())["compiled"]["verification"] is None


@pytest.mark.slow  # quick: test_points_that_there_was_no_time_for_are_named_everywhere
def test_points_that_were_not_run_stay_open_with_the_reason() -> None:
    report = compiled(limits=VerifyLimits(elements=1))
    points = len(facts_of(report).verification.results)
    assert report.verdict.startswith("Compiled into 1 engine, not verified: no point could be compared (")
    assert NOTHING_RUN in report.analysis.not_checked
    assert sum("more than 1" in text for text in report.analysis.not_checked) >= 1
    html = section(report)
    assert html.count('<tr class="point-skipped">') == points
    assert "elements there, more than 1" in words(html)
    partly = compiled(limits=VerifyLimits(elements=4000))
    states = re.findall(r'<tr class="point-(\w+)">', section(partly))
    assert {"agrees", "skipped"} == set(states)
    assert NOTHING_RUN not in partly.analysis.not_checked
    assert any("more than 4,000" in text for text in partly.analysis.not_checked)


def test_points_that_there_was_no_time_for_are_named_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count(0, 7)  # each look at the clock is 7 s after the last
    monkeypatch.setattr(compare, "Comparison", partial(Comparison, clock=lambda: float(next(ticks))))
    report = compiled(limits=VerifyLimits(seconds=1e9, total_s=100))
    found = facts_of(report).verification
    ran, late = [result for result in found.results if result.outputs], len(found.left_out)
    assert late >= 2
    assert len(ran) >= 2
    of = f"verified at {len(ran)} of {len(found.results)} sets of sizes"
    sizes = ", ".join(sorted(f"{report.analysis.program.names[s]}={n}" for s, n in found.left_out[0].sizes.items()))
    named = f"{late} sets of sizes, the largest {sizes}, for the limit of 100 s for all; --verify-limit 0 compares all"
    assert report.verdict.startswith(f"Compiled into 1 engine and {of};")
    assert f"numerics at {named}" in report.analysis.not_checked
    page = words(report.to_html())
    assert f"Not compared: {named}" in words(section(report))
    assert of in page
    assert f"not checked: numerics at {named}" in words(report._repr_html_())
    told = validated(report.to_json())["compiled"]["verification"]
    assert (told["outcome"], told["limit_s"], told["left_out"]) == ("agrees", 100.0, late)
    assert sum("--verify-limit 0" in (point["skipped"] or "") for point in told["points"]) == late
    told_text = printed(found, names=report.analysis.program.names)
    assert f"not compared: {named}" in told_text
    assert told_text.count("not compared") == 1  # not once more as points that were skipped
    assert f"at {len(ran)} of {len(found.results)} sets of sizes" in told_text


def test_a_program_that_stays_with_pytorch_says_so() -> None:
    kept = PartitionOptions(keep_in_torch=("aten",))
    report = compiled(partition=kept)
    assert report.verdict.startswith("Compiled into no engine and verified")
    assert "runs in PyTorch alone" in words(section(report))
    assert report.analysis.not_checked[0] == "engines: none was built, since nothing goes into one"
    assert validated(report.to_json())["compiled"]["engines"] == []


def by_hand(name: str = "out", points: int = 1) -> Verification:
    bad = OutputError(name, "float32", (2, 3), NAN, float("inf"), 1e-3, False, "NaN in other places")
    good = replace(bad, max_abs=1e-6, max_rel=1e-7, passed=True, why="")
    fine = tuple(PointResult(Point("in between", {"s0": size}), (good,)) for size in range(points))
    last = PointResult(Point("s0 max", {"s0": 9}, moved=True), (bad,))
    failed = PointResult(Point("min", {"s0": 1}), failed=name)
    skipped = PointResult(Point("max", {"s0": 7}), skipped=name)
    culprit = Culprit(3, Origin(name, name, FRAME), name, NAN, last.point)
    return Verification((*fine, last, failed, skipped), Tolerance(1e-4, 1e-5, name), culprit, (name,))


def report_by_hand(verification: Verification) -> Report:
    facts = CompilationFacts((), verification)
    stages = (StageTiming("verify", "ok", 0.1),)
    return Report(after_compiling(clean_analysis(), facts, stages), layout="builtin")


def test_what_differs_stands_first_and_the_rest_is_folded() -> None:
    html = section(report_by_hand(by_hand(points=101)))
    states = re.findall(r'<tr class="point-(\w+)">', html)
    assert states == ["differs", "failed", "skipped", *["agrees"] * 101]
    assert html.index("101 rows that agree") < html.index('<tr class="point-agrees">')
    assert "batch max (next allowed)" in words(html)


def test_numbers_that_are_not_finite_are_null_in_json() -> None:
    body = validated(json_report(report_by_hand(by_hand()).analysis))
    output = body["compiled"]["verification"]["points"][1]["outputs"][0]
    assert (output["max_abs"], output["max_rel"], output["passed"]) == (None, None, False)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_names_stay_text(name: str) -> None:
    report = report_by_hand(by_hand(name))
    page = report.to_html()
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "\u202e" not in page
    validated(report.to_json())
    json.loads(sarif_report(report.analysis))


def test_a_range_of_ops_is_told_where_one_could_not_be_found() -> None:
    found = by_hand()
    assert found.culprit is not None
    since = Origin("aten.mul.Tensor", "mul_7", FRAME)
    culprit = replace(found.culprit, segment=2, layer="Activation", since=since, note="it <hides>")
    report = report_by_hand(replace(found, culprit=culprit))
    text = words(section(report))
    assert f"after aten.mul.Tensor (mul_7) at {place(FRAME)}, at the latest with" in text
    assert section(report).count("it <hides>") == 1
    told = validated(report.to_json())["compiled"]["verification"]["culprit"]
    assert (told["after"]["node"], told["note"]) == ("mul_7", "it <hides>")
    assert told["after"]["source"]["line"] == FRAME.line


UNSTABLE = "the original itself moves by 2.0e-04 there when its inputs change by one unit in the last place"


def with_unstable(*, differs: bool) -> Verification:
    """Two sets of sizes that agree, one of them only as far as the original is stable, and one that differs."""
    tolerance = Tolerance(1e-4, 1e-5, "float32")
    good = OutputError("mask", "float32", (2, 3), 1e-6, 1e-6, 1.1e-4, True)
    loose = replace(good, max_abs=3e-4, max_rel=3e-4, allowed=8e-4, moved=2e-4)
    bad = replace(good, max_abs=5e-2, max_rel=5e-2, passed=False, moved=3e-7)
    results = [
        PointResult(Point("min", {"s0": 1}), (good,)),
        PointResult(Point("max", {"s0": 9}), (loose,), unstable=UNSTABLE),
    ]
    if differs:
        results.append(PointResult(Point("in between", {"s0": 5}), (bad,)))
    return Verification(tuple(results), tolerance, None, ("at 1 set of sizes",))


def printed(found: Verification, width: int = 200, names: Mapping[str, str] | None = None) -> str:
    console = Console(width=width, record=True, file=StringIO())
    console.print(verification_text(found, names or {"s0": "batch"}), crop=False)
    return console.export_text()


def test_a_program_that_differs_everywhere_fits_on_a_screen() -> None:
    found = with_unstable(differs=True)
    bad = found.results[-1].outputs[0]
    wrong = [replace(bad, output=f"cache[{n}]", max_rel=float(n)) for n in range(1, 10)]
    results = [PointResult(Point("in between", {"s0": n}), tuple(wrong)) for n in range(1, 12)]
    text = printed(replace(found, results=tuple(results)))
    assert len(text.splitlines()) < 40
    assert text.count("    cache[9]: ") == text.count("and 6 more outputs") == 6
    assert "  and 5 more sets of sizes (--json has all)" in text


def test_the_terminal_has_rows_for_what_does_not_agree_alone() -> None:
    found = with_unstable(differs=True)
    refused = [PointResult(Point("max", {"s0": n}), skipped=f"the original refuses {n} rows") for n in (7, 8)]
    broken = PointResult(Point("min", {"s0": 2}), failed="engine 0 has no such input")
    lines = printed(replace(found, results=(*found.results, *refused, broken)), width=80).rstrip().splitlines()
    assert lines[0] == "DIFFERS from the original at 2 of 4 sets of sizes"
    assert lines[1:] == [
        "  in between (batch=5)",
        "    mask: max abs 5.00e-02, max rel 5.00e-02, differs; the original itself moves",
        "        by 3.0e-07",
        "  min (batch=2)",
        "    failed: engine 0 has no such input",
        "  max (batch=9)",
        "    mask: max abs 3.00e-04, max rel 3.00e-04, unstable: the original itself",
        "        moves by 2.0e-04",
        "  not compared at 2 sets of sizes: the original refuses 7 rows",
        "    such as max (batch=7)",
        "allowed: 0.0001 of the magnitude + 1e-05 (float32)",
        "note: at 1 set of sizes",
    ]


def test_notes_have_the_users_names_for_sizes() -> None:
    found = replace(with_unstable(differs=False), notes=("at s0 max it moves",))
    assert "note: at batch max it moves\n" in printed(found)


def test_what_the_original_does_not_keep_is_counted_apart() -> None:
    found = with_unstable(differs=False)
    report = report_by_hand(found)
    assert found.passed
    apart = "at 2 sets of sizes, at 1 of them only as far as the original itself is stable"
    assert report.verdict.startswith(f"Compiled into no engine and verified {apart};")
    assert "numerics: at 1 set of sizes" in report.analysis.not_checked
    html = section(report)
    assert re.findall(r'<tr class="point-(\w+)">', html) == ["unstable", "agrees"]
    for text in (words(html), printed(found)):
        assert f"erified: agrees with the original {apart}, at most 3.0e-04 of an output's magnitude off" in text
        assert re.search(r"unstable:? +the original itself moves by 2.0e-04", text)
    points = validated(report.to_json())["compiled"]["verification"]["points"]
    assert [(point["passed"], point["unstable"]) for point in points] == [(True, None), (True, UNSTABLE)]
    assert [point["outputs"][0]["moved"] for point in points] == [None, 2e-4]


def test_what_no_movement_explains_says_how_little_the_original_moves() -> None:
    found = with_unstable(differs=True)
    html = section(report_by_hand(found))
    assert re.findall(r'<tr class="point-(\w+)">', html) == ["differs", "unstable", "agrees"]
    assert re.search(r"differs the original itself moves by 3.0e-07", words(html))
    told = printed(found)
    assert "DIFFERS from the original at 1 of 3 sets of sizes" in told
    assert "differs; the original itself moves by 3.0e-07" in told


class Angles(nn.Module):
    """Five calls of four ops in float64 between layers in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 7), nn.Linear(7, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = (self.first(x).relu() + 1).sigmoid() * 3
        return (self.second(y.double().sin().cos().sin().float()).relu() * 2).tanh() + 1


def test_ops_of_one_cause_are_one_line_with_a_count_and_what_to_do() -> None:
    asked = Angles(), (torch.randn(3, 4),), {}, {"x": {0: Dim("rows", min=1, max=31)}}
    found = compile_in_stages(asked, CompileOptions("11.4", "reference", verify=False))
    console = Console(width=160, record=True, file=StringIO())
    console.print(engines_text(found.plan, found.converted, found.engines), crop=False)
    (left,) = re.findall(r"Left to PyTorch\n(.*)\n\n", console.export_text(), re.DOTALL)
    lines = [line.strip() for line in left.splitlines()]
    assert lines[0].startswith("5 calls: aten.to.dtype (2x), aten.sin.default (2x), aten.cos.default: its result is")
    assert lines[0].endswith("(and 4 like it)") or lines[1].endswith("(and 4 like it)")
    assert lines[-1].startswith("fix: pass truncate_double=True")
    assert left.count("fix:") == 1


class Bessel(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.special.bessel_j0((x + 1) * 2)


def test_the_op_that_has_no_converter_is_named_once() -> None:
    asked = Bessel(), (torch.randn(3, 4),), {}, None
    found = compile_in_stages(asked, CompileOptions("11.4", "reference", verify=False))
    console = Console(width=160, record=True, file=StringIO())
    console.print(engines_text(found.plan, found.converted, found.engines), crop=False)
    assert "\n  aten.special_bessel_j0.default: has no converter for TensorRT\n" in console.export_text()
