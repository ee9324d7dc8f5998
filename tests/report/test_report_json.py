"""The JSON report: schema, golden text, order, hostile names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from report_text import json_report
from sample_analysis import (
    FINDINGS,
    HOSTILE_NAMES,
    analysis,
    clean_analysis,
    exported_net,
    finding,
    graph_analysis,
)

from tests.harness.rows import thinned
from trtdiag.analysis.finding import Evidence, Place, Severity
from trtdiag.analysis.stage_timing import StageTiming
from trtdiag.frontend.program import ExportFailure
from trtdiag.report.json_report import SCHEMA, SCHEMA_PATH

GOLDEN = Path(__file__).with_name("golden-report.json")


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(SCHEMA_PATH.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def without_graph() -> object:
    failure = ExportFailure("UserError", "Constraints violated (h)!", None)
    return analysis(
        program=replace(analysis().program, failure=failure), symbols=None, memory=None, dtypes=None, checked=None
    )


@pytest.mark.parametrize("make", [analysis, clean_analysis, without_graph], ids=["full", "clean", "no-graph"])
def test_report_fits_its_schema(make: object, validator: jsonschema.Draft202012Validator) -> None:
    validator.validate(json.loads(json_report(make())))


def test_report_of_a_real_program_fits_its_schema(validator: jsonschema.Draft202012Validator) -> None:
    validator.validate(json.loads(json_report(graph_analysis(exported_net(2)))))


def test_schema_refuses_a_wrong_report(validator: jsonschema.Draft202012Validator) -> None:
    report = json.loads(json_report(analysis()))
    report["findings"][0]["severity"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(report)
    del report["findings"], report["schema"]
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(report)


def test_golden_report() -> None:
    """The whole text is a promise to its readers: after a wanted change, write the new text to the golden file."""
    assert json_report(analysis()) == GOLDEN.read_text(encoding="utf-8")


def test_only_timings_differ_between_runs() -> None:
    slow = tuple(StageTiming(s.name, s.state, s.seconds * 3 + 1, s.message) for s in analysis().stages)
    first = json_report(analysis())
    second = json_report(analysis(stages=slow))
    assert first != second
    assert first.split('"timings"')[0] == second.split('"timings"')[0]
    assert list(json.loads(first))[-1] == "timings"


def test_keys_come_in_one_order() -> None:
    full, clean = json.loads(json_report(analysis())), json.loads(json_report(clean_analysis()))
    assert list(full) == list(clean)
    assert next(iter(full.items())) == ("schema", SCHEMA)


def test_findings_stand_with_roots_first() -> None:
    report = json.loads(json_report(analysis()))
    assert [found["id"] for found in report["findings"]] == ["GRD301-1", "SYM205-1", "TYP402-1", "MET103-1"]
    assert len(report["findings"][0]["places"]) == 32


def test_guards_are_all_there_read_or_not() -> None:
    guards = json.loads(json_report(analysis()))["guards"]
    assert [guard["verdict"] for guard in guards["parsed"]] == ["holds", "breaks"]
    assert guards["unparsed"] == [
        {"text": "torch.foo(L['x'])", "why": "a call to torch.foo", "found_in": "_guards_code"}
    ]


# Quick: the ends and each third; all are quick in test_report_html.py.
@thinned("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)), every=3)
def test_hostile_names_survive(name: str, validator: jsonschema.Draft202012Validator) -> None:
    hostile = finding(
        1, "MET101", Severity.ERROR, name, evidence=(Evidence(name, name),), places=(Place(name, name, None, name),)
    )
    text = json_report(analysis(findings=(hostile, *FINDINGS)))
    text.encode("utf-8")
    report = json.loads(text)
    validator.validate(report)
    expected = name.replace("\ud800", "\\ud800")
    assert report["findings"][0]["message"] == expected
    assert report["findings"][0]["places"][0]["node"] == expected
