"""What changed between two reports: findings by fingerprint, engines, symbols; in every format."""

from __future__ import annotations

import json
import re
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from rich.console import Console
from sample_analysis import FINDINGS, HOSTILE_NAMES, analysis, exported_net, finding, program
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

import trtdiag
from tests.harness.rows import thinned
from trtdiag.analysis.finding import Severity
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.report.comparison import compared
from trtdiag.report.json_report import SCHEMA_PATH
from trtdiag.report.report import Report
from trtdiag.report.sarif import FINGERPRINT
from trtdiag.report.saved import read_report
from trtdiag.report.terminal import summary
from trtdiag.report.view_comparison import comparison_view

NEW = finding(9, "OPS501", Severity.WARNING, "aten.cummax.default has no converter")


class Block(nn.Module):
    """Ops that leave findings: one without a converter, one that draws random numbers, a float64 constant."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.second = nn.Linear(5, 5)
        self.register_buffer("scale", torch.ones(5, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.cummax(torch.relu(self.first(x)) * 2 + 1, 1).values
        y = (y * self.scale).to(torch.float32)
        return torch.relu(self.second(y) + torch.rand_like(y)) * 3 + 1


class Chain(nn.Module):
    """Blocks; ``before`` ops come first, so that every node of the same op has another number."""

    def __init__(self, blocks: int, before: int = 0) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.before = before

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.before):
            x = torch.relu(x * 2) + 1
        for block in self.blocks:
            x = block(x)
        return x


@cache
def exported_chain(blocks: int, before: int, most: int) -> ExportedProgram:
    shapes = {"x": {0: Dim("rows", min=1, max=most)}}
    return export(Chain(blocks, before), (torch.randn(3, 5),), dynamic_shapes=shapes)


@cache
def report_of(blocks: int, before: int = 0, most: int = 13, **options: object) -> Report:
    program_ = exported_chain(blocks, before, most)
    return trtdiag.analyze(program_, **{"target": "11.4", "min_segment_ops": 1, **options})


@pytest.fixture(scope="module")
def three() -> Report:
    return report_of(3)


def states(report: Report) -> dict[str, list[str]]:
    found = report.comparison
    assert found is not None
    return {state: [change["rule"] for change in found[state]] for state in ("new", "fixed", "unchanged")}


@pytest.mark.slow  # quick: engines and symbols before and after
def test_fingerprints_survive_ops_inserted_before(three: Report) -> None:
    moved = report_of(3, before=4)
    nodes = [{place.node for found in each.findings for place in found.places if place.node} for each in (three, moved)]
    assert nodes[0] != nodes[1]
    assert len(three.findings) >= 4
    assert prints(moved) == prints(three)
    assert states(moved.compare(three))["unchanged"] == [found["rule"] for found in moved.body["findings"]]


def prints(report: Report) -> set[str]:
    results = json.loads(report.to_sarif())["runs"][0]["results"]
    return {each["partialFingerprints"][FINGERPRINT] for each in results}


@pytest.mark.slow  # quick: fingerprints survive ops inserted before
def test_fingerprints_survive_another_number_of_layers(three: Report) -> None:
    """The effect of an op (``4 engines instead of 1``) is part of its message, not of what it is."""
    four = report_of(4)
    assert [found["message"] for found in four.body["findings"]] != [
        found["message"] for found in three.body["findings"]
    ]
    assert prints(three) <= prints(four)
    assert states(four.compare(three))["fixed"] == []
    assert set(states(four.compare(three))["new"]) <= {"PRT601"}  # one engine more may be too many


def test_identical_layers_are_one_finding(three: Report) -> None:
    (constant,) = (found for found in three.findings if found.rule == "TYP402")
    assert {place.node for place in constant.places} >= {f"b_blocks_{at}_scale" for at in range(3)}
    view = next(found for found in three.rendering.view["findings"] if found["rule"] == "OPS501")
    assert view["modules"] == "blocks.* (3 times)"


def test_what_is_new_fixed_and_unchanged() -> None:
    before = Report(analysis())
    after = Report(analysis(findings=(NEW, *FINDINGS[1:3])))
    assert {f.fingerprint for f in FINDINGS} == {"0000000000000001"}  # by hand they are all alike
    told = states(after.compare(before))
    assert told == {"new": ["OPS501"], "fixed": [], "unchanged": ["TYP402", "SYM205"]}
    assert states(before.compare(after))["fixed"] == ["OPS501"]


def test_a_finding_of_another_severity_is_shown() -> None:
    worse = finding(9, "OPS501", Severity.ERROR, NEW.message)
    report = Report(analysis(findings=(worse,))).compare(Report(analysis(findings=(NEW,))))
    view = report.rendering.view["comparison"]
    assert view is not None
    assert [(each["state"], each["word"]) for each in view["changes"]] == [("unchanged", "error (was warning)")]


@pytest.mark.slow  # quick: test_keys_of_a_later_version_are_no_change
def test_engines_and_symbols_before_and_after(three: Report) -> None:
    after = report_of(3, most=29, keep_in_torch=("blocks.1", "blocks.2")).compare(three)
    body = json.loads(after.to_json())
    jsonschema.Draft202012Validator(json.loads(SCHEMA_PATH.read_text())).validate(body)
    found = body["comparison"]
    counts = [len(json.loads(each.to_json())["partition"]["segments"]) for each in (three, after)]
    assert counts[0] != counts[1]
    assert [found["engines"][side]["engines"] for side in ("before", "after")] == counts
    (symbol,) = found["symbols"]
    assert (symbol["before"]["range"], symbol["after"]["range"]) == ({"min": 1, "max": 13}, {"min": 1, "max": 29})
    text = " ".join(printed(after).split())
    assert "1 symbol changed" in text
    assert f"engines: {counts[0]} -> {counts[1]}" in text
    assert '<section id="comparison"' in after.to_html()
    assert "1 symbol changed** compared with" in after.to_markdown()


def test_other_programs_targets_and_versions_are_told() -> None:
    other = Report(analysis(program=program(label="other.pt2"), target="11.4", trtdiag_version="0.0.1"))
    told = Report(analysis()).compare(other).comparison
    assert told is not None
    assert told["notes"] == [
        "Another program: other.pt2 then, model.pt2 now",
        "Another TensorRT: 11.4 then, 8.6 now",
        "Another trtdiag: 0.0.1 then, 0.1.0 now",
    ]


@pytest.mark.slow  # quick: test_keys_of_a_later_version_are_no_change
def test_two_saved_reports_are_compared_without_a_model(three: Report, tmp_path: Path) -> None:
    old = three.save(tmp_path / "old.json")
    new = report_of(3, keep_in_torch=("aten.relu",)).save(tmp_path / "new.json")
    saved = read_report(new).compare(old)
    assert saved.rendering.view["comparison"] is not None
    assert saved.rendering.view["comparison"]["earlier"] == str(old)
    again = read_report(saved.save(tmp_path / "compared.json"))
    assert again.rendering.text("html") == saved.rendering.text("html")


def of_a_later_version(value: Any) -> Any:
    """The part of a report with a key more in each object, as a later version may write it."""
    if isinstance(value, list):
        return [of_a_later_version(each) for each in value]
    if isinstance(value, dict):
        return {**{key: of_a_later_version(each) for key, each in value.items()}, "step": 7}
    return value


# Quick: both reports.
@pytest.mark.parametrize(
    "later",
    [
        pytest.param((True, False), marks=pytest.mark.slow),
        pytest.param((False, True), marks=pytest.mark.slow),
        (True, True),
    ],
    ids=["before", "after", "both"],
)
@pytest.mark.parametrize("most", [13, 29], ids=["same", "changed"])
def test_keys_of_a_later_version_are_no_change(
    later: tuple[bool, bool], most: int, three: Report, tmp_path: Path
) -> None:
    places = [tmp_path / "old.json", tmp_path / "new.json"]
    plain = [json.loads(report.to_json()) for report in (three, report_of(3, most=most))]
    for place, body, more in zip(places, plain, later, strict=True):
        whole = {**of_a_later_version(body), "page": body["page"]} if more else body
        place.write_text(json.dumps(whole), encoding="utf-8")
    saved = read_report(places[1]).compare(places[0])
    found = saved.body["comparison"]
    assert found == compared(*plain, str(places[0]))
    assert len(found["symbols"]) == (most != 13)
    assert (saved.rendering.view["comparison"]["symbols"] is not None) == (most != 13)


def test_without_a_comparison_there_is_no_section(three: Report) -> None:
    assert '<section id="comparison"' not in three.to_html()
    assert json.loads(three.to_json())["comparison"] is None


# Quick: the ends and each third; all are quick in test_report_html.py.
@thinned("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)), every=3)
def test_hostile_names_stay_text(name: str) -> None:
    before = Report(analysis(findings=(finding(1, "A", Severity.ERROR, name, fingerprint="x"),)))
    after = Report(analysis()).compare(before, name=name)
    assert "<script>alert(1)" not in after.to_html()
    assert not set(printed(after)) & {"\x1b", "\x07", "\x00", "\u202e"}
    assert not re.search(r"(?<!\\)<(img|script)", after.to_markdown())


def printed(report: Report) -> str:
    out = StringIO()
    Console(file=out, width=200).print(summary(report.analysis, width=200, comparison=report.comparison))
    return out.getvalue()


def test_times_of_layers_are_compared_where_they_were_taken() -> None:
    asked = CompileOptions(target="11.4", backend="reference", verify=False)
    body = json.loads(compile_in_stages(exported_net(2), asked).report.to_json())

    def timed(each_ms: float | None) -> dict[str, Any]:
        layer = {"name": "l", "kind": "k", "time_ms": each_ms}
        built = {"layers": [layer, layer, {**layer, "time_ms": None}], "why": None}
        engines = [{**engine, "built": built} for engine in body["compiled"]["engines"]]
        return {**body, "compiled": {**body["compiled"], "engines": engines}}

    rows = comparison_view(compared(timed(0.75), timed(0.25), "old.json"))["numbers"]["rows"]
    assert ("layers of engine 0", "1.5 ms", "0.5 ms") in rows
    rows = comparison_view(compared(timed(None), timed(0.25), "old.json"))["numbers"]["rows"]
    assert ("layers of engine 0", "not measured", "0.5 ms") in rows
    rows = comparison_view(compared(timed(None), timed(None), "old.json"))["numbers"]["rows"]
    assert not any(name.startswith("layers") for name, *_ in rows)


class Image(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, image: Tensor) -> Tensor:
        return torch.nn.functional.gelu(self.conv(image)).mean((2, 3))


def test_two_different_programs_stand_side_by_side(three: Report) -> None:
    other = trtdiag.analyze(export(Image(), (torch.randn(2, 3, 7, 7),)), target="11.4")
    found = other.compare(three).comparison
    assert found is not None
    assert found["unlike"] == "two different programs: 0% of their ops are the same"
    view = comparison_view(found)

    assert view["summary"] == f"Side by side: {found['unlike']}"
    assert (view["changes"], view["folded"], view["symbols"]) == ([], [], None)
    rows = {row[0]: row[1:] for row in view["numbers"]["rows"]}
    counts = [sum(each.severity is Severity.WARNING for each in report.findings) for report in (three, other)]
    assert rows["warnings"] == tuple(map(str, counts))
    assert rows["engines"][1] == "1"
    for made in (other.compare(three).to_html(), other.compare(three).to_markdown()):
        assert "Side by side: two different programs" in made
        assert "fixed" not in made.partition("Side by side")[2][:600]
    jsonschema.validate(json.loads(other.compare(three).to_json()), json.loads(SCHEMA_PATH.read_text()))


def test_two_nets_of_like_ops_and_inputs_are_told_apart_by_their_names(three: Report) -> None:
    before = json.loads(three.to_json())
    after = json.loads(json.dumps(before))
    count = sum(len(segment["ops"]) for segment in before["partition"]["segments"])
    for segment in after["partition"]["segments"]:
        # All ops, and as many others: half of the larger program is the same; a few more, and less than that is.
        segment["ops"] += [f"other_{at}" for at in range(len(segment["ops"]))]
    after["partition"]["segments"][0]["ops"] += [f"other_{at}" for at in range(count // 2)]
    for name, differs in ((before["program"]["label"], False), ("another.pt2", True)):
        after["program"]["label"] = name
        unlike = compared(before, after, "old.json")["unlike"]
        assert bool(unlike) == differs, unlike


def test_states_of_one_program_are_compared_however_it_grows(three: Report) -> None:
    for report in (report_of(1), report_of(4), report_of(3, before=4), report_of(3, target="8.6")):
        found = report.compare(three).comparison
        assert found is not None
        assert found["unlike"] is None


def test_another_target_has_its_findings_counted(three: Report) -> None:
    found = report_of(3, target="8.6").compare(three).comparison
    assert found is not None
    assert "Another TensorRT: 11.4 then, 8.6 now" in found["notes"]
    rows = [row[0] for row in comparison_view(found)["numbers"]["rows"]]
    assert rows[:2] == ["warnings", "notes"]


def test_a_report_that_was_saved_without_the_word_is_read(three: Report, tmp_path: Path) -> None:
    body = json.loads(three.compare(three).to_json())
    del body["comparison"]["unlike"]
    (tmp_path / "old.json").write_text(json.dumps(body))
    assert "0 new, 0 fixed" in read_report(tmp_path / "old.json").rendering.text("markdown")
