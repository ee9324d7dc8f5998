"""A report saved as JSON and drawn again: the same bytes, without the model; what is no report is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sample_analysis import HOSTILE_NAMES, analysis, clean_analysis, exported_net, finding, graph_analysis

import trtdiag
from tests.harness.rows import thinned
from trtdiag.analysis.finding import Evidence, Impact, Severity
from trtdiag.analysis.registry import rules
from trtdiag.analysis.stage_timing import StageTiming
from trtdiag.errors import UserError
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.report.report import Report
from trtdiag.report.saved import read_report
from trtdiag.report.saved_page import FORMAT, page_json, read_page
from trtdiag.report.view_stages import stages_view

FIRST_VERSION = Path(__file__).with_name("saved-page-1.json")
FORMATS = ("html", "json", "sarif", "markdown")


def planned() -> Report:
    return trtdiag.analyze(exported_net(2), target="11.4", min_segment_ops=1)


def compiled() -> Report:
    return compile_in_stages(exported_net(2), CompileOptions(target="11.4", backend="reference")).report


MAKERS = {
    "by-hand": lambda: Report(analysis(), rules(), layout="builtin"),
    "clean": lambda: Report(clean_analysis(), rules()),
    "graph": lambda: Report(graph_analysis(exported_net()), rules(), layout="builtin"),
    "planned": planned,
    "compiled": compiled,
    "compared": lambda: planned().compare(Report(analysis())),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_saved_report_gives_the_same_bytes_in_every_format(name: str, tmp_path: Path) -> None:
    report = MAKERS[name]()
    saved = read_report(report.save(tmp_path / "report.json"), rules())
    for each in FORMATS:
        assert saved.rendering.text(each) == report.rendering.text(each), each


def test_the_view_survives_a_round_trip() -> None:
    view = planned().rendering.view
    assert read_page(json.loads(json.dumps(page_json(view)))) == view


# Quick: the ends and each third; all are quick in test_report_html.py.
@thinned("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)), every=3)
def test_hostile_names_survive_saving(name: str, tmp_path: Path) -> None:
    found = finding(1, "MET101", Severity.ERROR, name, evidence=(Evidence(name, name),), impact=Impact(2, 3, None))
    report = Report(analysis(findings=(found,)))
    saved = read_report(report.save(tmp_path / "report.json"))
    assert saved.rendering.text("html") == report.to_html()
    assert saved.body["findings"][0]["impact"] == {"engines": 2, "ops": 3, "crossing_bytes": None}


def test_the_json_in_the_page_is_the_report_but_for_the_drawing(tmp_path: Path) -> None:
    report = planned()
    body = json.loads(report.to_json())
    assert body["page"]["format"] == FORMAT
    assert list(body)[-1] == "page"
    assert body["page"]["view"]["graph"]["payload"].startswith('{"')
    bare = page_json(report.rendering.view, with_graph=False)
    body["page"]["view"]["graph"]["payload"] = ""
    assert bare == body["page"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is no JSON"),
        ("[1, 2]", "it is no report of trtdiag"),
        ("{}", "it is no report of trtdiag"),
        ('{"schema": "trtdiag-report/9"}', "its schema is 'trtdiag-report/9'"),
        ('{"schema": "trtdiag-report/1"}', "a part of it is missing"),
        ("[" * 100_000, "it is no JSON"),
    ],
)
def test_what_is_no_report_is_refused(text: str, why: str, tmp_path: Path) -> None:
    place = tmp_path / "odd.json"
    place.write_text(text)
    with pytest.raises(UserError, match="cannot read the report") as caught:
        read_report(place)
    assert caught.value.reference == "report-not-readable"
    assert why in caught.value.because


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    for place in (tmp_path / "absent.json", tmp_path):
        with pytest.raises(UserError, match="cannot read the report"):
            read_report(place)


@pytest.mark.parametrize("part", ["severity", "places", "fingerprint"])
def test_a_damaged_finding_is_refused(part: str, tmp_path: Path) -> None:
    body = json.loads(Report(analysis()).to_json())
    body["findings"][0][part] = 7
    place = tmp_path / "damaged.json"
    place.write_text(json.dumps(body))
    if part == "fingerprint":  # any value tells two findings apart
        assert read_report(place).body["findings"][0]["fingerprint"] == 7
        return
    with pytest.raises(UserError, match="cannot read the report"):
        read_report(place)


def page_without(body: dict[str, object]) -> None:
    del body["page"]


def page_of_another_version(body: dict[str, object]) -> None:
    body["page"] = {"format": "trtdiag-page/0", "view": {}}


def page_with_another_part(body: dict[str, object]) -> None:
    body["page"]["view"]["verdict"]["colour"] = "red"


def page_with_a_number(body: dict[str, object]) -> None:
    body["page"]["view"]["label"] = 3


@pytest.mark.parametrize("change", [page_without, page_of_another_version, page_with_another_part, page_with_a_number])
def test_a_page_that_cannot_be_drawn_is_told_and_the_facts_still_read(change: object, tmp_path: Path) -> None:
    body = json.loads(Report(analysis()).to_json())
    change(body)
    place = tmp_path / "report.json"
    place.write_text(json.dumps(body))
    saved = read_report(place)
    assert saved.verdict.startswith("1 error, 2 warnings, 1 note")
    with pytest.raises(UserError, match="cannot be drawn again") as caught:
        saved.save(tmp_path / "report.html")
    assert caught.value.reference == "report-without-page"
    assert Report(analysis()).compare(saved).comparison is not None


def test_a_report_with_a_page_of_version_1_still_draws(tmp_path: Path) -> None:
    """A compiled program with findings and a comparison, as ``trtdiag-page/1`` was last written."""
    told = json.loads(FIRST_VERSION.read_text(encoding="utf-8"))
    assert told["page"]["format"] == "trtdiag-page/1"
    saved = read_report(FIRST_VERSION, rules())
    page = saved.save(tmp_path / "again.html").read_text(encoding="utf-8")
    for found in told["findings"]:
        assert page.count(f'id="{found["id"]}"') == 1
    assert saved.save(tmp_path / "again.md").stat().st_size > 1000
    again = json.loads(saved.save(tmp_path / "again.json").read_text(encoding="utf-8"))
    assert again["page"]["format"] == FORMAT
    assert read_report(tmp_path / "again.json", rules()).rendering.text("html") == page
    assert {key: again[key] for key in again if key != "page"} == saved.body


def test_a_damaged_page_of_version_1_is_refused_with_its_place(tmp_path: Path) -> None:
    told = json.loads(FIRST_VERSION.read_text(encoding="utf-8"))
    told["page"]["view"]["stages"][0]["state"] = "fine"
    (tmp_path / "damaged.json").write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(UserError, match="cannot be drawn again") as caught:
        read_report(tmp_path / "damaged.json").save(tmp_path / "page.html")
    assert caught.value.because.startswith('page.stages[0].state is "fine"')


def test_stages_are_one_line_where_none_failed() -> None:
    times = StageTiming("capture", "ok", 0.25, ""), StageTiming("metadata", "ok", 1.85, "")
    view = stages_view(clean_analysis(stages=times))
    assert view["label"] == "2 stages ok in 2.10 s; convert, build, verify not run"
    failed = StageTiming("dims", "failed", 0.1, "out of memory")
    view = stages_view(clean_analysis(stages=(*times, failed)))
    assert view["label"] == "2 other stages ok in 2.10 s; convert, build, verify not run"
    assert [row["message"] for row in view["failed"]] == ["out of memory"]
