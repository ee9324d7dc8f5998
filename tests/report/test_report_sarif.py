"""The SARIF report: the official schema, locations, fingerprints, fixes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from report_text import sarif_report
from sample_analysis import FRAME, HOSTILE_NAMES, analysis, clean_analysis, finding

from tests.harness.rows import thinned
from trtdiag.analysis.finding import Applicability, Evidence, Fix, Place, Severity
from trtdiag.graph.source import Frame
from trtdiag.report.sarif import FINGERPRINT
from trtdiag.report.sarif_places import HOME, MOST_LOCATIONS, artifact, repository_root

SCHEMA = Path(__file__).with_name("sarif-schema-2.1.0.json")


@dataclass(frozen=True)
class RuleText:
    id: str
    name: str
    title: str
    severity: Severity
    text: str


RULES = (
    RuleText("TYP402", "float64-tensor", "A float64 tensor", Severity.WARNING, "A float64 tensor\n\nWhy: ..."),
    RuleText("GRD301", "guard-breaks-range", "A guard breaks the range", Severity.ERROR, "page of GRD301"),
    RuleText("ART801", "foreign-version", "Exported by another torch", Severity.INFO, "page of ART801"),
)


@pytest.fixture(scope="module")
def validator() -> Iterator[jsonschema.Draft202012Validator]:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())


def run_of(text: str) -> dict[str, Any]:
    return json.loads(text)["runs"][0]


def test_schema_is_the_published_one() -> None:
    note = SCHEMA.with_name("SARIF-SCHEMA.md").read_text(encoding="utf-8")
    assert hashlib.sha256(SCHEMA.read_bytes()).hexdigest() in note


def test_schema_refuses_a_wrong_log(validator: jsonschema.Draft202012Validator) -> None:
    log = json.loads(sarif_report(analysis(), RULES))
    log["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(log)


@pytest.mark.parametrize("rules", [RULES, ()], ids=["rules", "no-rules"])
@pytest.mark.parametrize("make", [analysis, clean_analysis])
def test_log_fits_the_official_schema(
    make: Any, rules: tuple[RuleText, ...], validator: jsonschema.Draft202012Validator
) -> None:
    validator.validate(json.loads(sarif_report(make(), rules)))


def test_every_rule_is_described_and_results_point_at_theirs() -> None:
    run = run_of(sarif_report(analysis(), RULES))
    described = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in described] == ["ART801", "GRD301", "TYP402", "SYM205", "MET103"]
    assert described[1]["fullDescription"]["text"] == "page of GRD301"
    for result in run["results"]:
        assert described[result["ruleIndex"]]["id"] == result["ruleId"]
    assert [result["level"] for result in run["results"]] == ["error", "warning", "warning", "note"]


def test_first_user_line_is_the_location_and_the_others_are_related() -> None:
    result = run_of(sarif_report(analysis(), RULES, Path("/home/ada")))["results"][0]
    physical = result["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == "model.py"
    assert physical["region"] == {"startLine": 41, "snippet": {"text": FRAME.code}}
    assert result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "encoder.layers.0/view_0"
    assert len(result["relatedLocations"]) == 31
    assert result["partialFingerprints"] == {FINGERPRINT: "0000000000000001"}


def test_no_more_locations_than_hosts_show(validator: jsonschema.Draft202012Validator) -> None:
    places = tuple(Place(f"n{i}", "m", FRAME, "aten.add.Tensor") for i in range(5000))
    text = sarif_report(analysis(findings=(finding(1, "A", Severity.ERROR, "many", places=places),)))
    result = run_of(text)["results"][0]
    assert len(result["locations"]) + len(result["relatedLocations"]) == MOST_LOCATIONS
    assert result["properties"]["places"] == 5000
    validator.validate(json.loads(text))


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("/home/ada/net/model.py", "net/model.py"),
        ("/home/ada/a b#c?.py", "a%20b%23c%3F.py"),
        ("/opt/model.py", "file:///opt/model.py"),
        ("net/model.py", "net/model.py"),
        ("C:\\nets\\model.py", "file:///C:/nets/model.py"),
        ("/home/ada/größe.py", "gr%C3%B6%C3%9Fe.py"),
        ("/home/ada/\ud800.py", "%5Cud800.py"),
    ],
)
def test_addresses(file: str, uri: str) -> None:
    assert artifact(file, Path("/home/ada")) == {"uri": uri}


@pytest.mark.parametrize("file", ["/home/ada-other/a b.py", "~/a b.py", "C:\\Users\\ada\\a b.py", "C:/Users/x/a b.py"])
def test_addresses_in_homes_name_nobody(file: str) -> None:
    assert artifact(file, Path("/srv")) == {"uri": "a%20b.py", "uriBaseId": HOME}


def test_addresses_are_those_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "tools" / "nets").mkdir(parents=True)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.chdir(tmp_path / "tools")
    root = repository_root()
    assert root == tmp_path
    files = [str(tmp_path / "nets" / "net.py"), "nets/net.py", "../nets/net.py"]
    assert [artifact(file, root)["uri"] for file in files] == ["nets/net.py", "tools/nets/net.py", "nets/net.py"]
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "tools"))  # the host says what it names files from
    assert repository_root() == tmp_path / "tools"
    monkeypatch.setenv("GITHUB_WORKSPACE", "/elsewhere")
    assert repository_root() == tmp_path


def test_the_home_folder_is_declared_where_it_is_used(validator: jsonschema.Draft202012Validator) -> None:
    places = (Place("n", "m", Frame("/home/bob/net.py", 3), "aten.add.Tensor"),)
    text = sarif_report(analysis(findings=(finding(1, "A", Severity.ERROR, "at /home/bob/net.py:3", places=places),)))
    validator.validate(json.loads(text))
    assert "bob" not in text
    assert list(run_of(text)["originalUriBaseIds"]) == [HOME]
    assert "originalUriBaseIds" not in run_of(sarif_report(analysis(findings=())))


def test_place_without_a_file_has_no_physical_location(validator: jsonschema.Draft202012Validator) -> None:
    places = (Place("n", "", Frame("<eval_with_key>.7", 3), None), Place(None, None, Frame("/a.py", 0), None), Place())
    text = sarif_report(analysis(findings=(finding(1, "A", Severity.ERROR, "odd", places=places),)))
    validator.validate(json.loads(text))
    result = run_of(text)["results"][0]
    assert "physicalLocation" not in result["locations"][0]
    assert result["relatedLocations"][0]["physicalLocation"] == {"artifactLocation": {"uri": "file:///a.py"}}


def test_only_safe_fixes_are_in_the_message() -> None:
    safe = finding(1, "A", Severity.WARNING, "a", fix=Fix("pass dtype", Applicability.SAFE, "x.to(f)"))
    unsafe = replace(safe, id="A-2", fix=Fix("narrow h", Applicability.UNSAFE, "h = 8 * _h"))
    results = run_of(sarif_report(analysis(findings=(safe, unsafe))))["results"]
    assert "Fix (safe): pass dtype" in results[0]["message"]["text"]
    assert "h = 8" not in results[1]["message"]["text"]
    assert results[1]["properties"]["fix"] == {"title": "narrow h", "applicability": "unsafe", "code": "h = 8 * _h"}
    assert all("fixes" not in result for result in results)


def test_failed_stage_and_what_was_not_checked_are_told() -> None:
    invocation = run_of(sarif_report(analysis()))["invocations"][0]
    assert invocation["executionSuccessful"] is False
    texts = [note["message"]["text"] for note in invocation["toolExecutionNotifications"]]
    assert texts[0] == "stage dtypes failed: no such target"
    assert any(text.startswith("not checked: values of user inputs") for text in texts)


# Quick: the ends and each third; all are quick in test_report_html.py.
@thinned("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)), every=3)
def test_hostile_names_survive(name: str, validator: jsonschema.Draft202012Validator) -> None:
    hostile = finding(
        1,
        "MET101",
        Severity.ERROR,
        name,
        evidence=(Evidence(name, name),),
        places=(Place(name, name, Frame(f"/x/{name}.py", 2, name, name), name), Place(name, name, None, name)),
        fix=Fix(name, Applicability.SAFE, name),
    )
    text = sarif_report(analysis(findings=(hostile,), not_checked=(name,)))
    text.encode("utf-8")
    validator.validate(json.loads(text))


def test_same_analysis_gives_the_same_text() -> None:
    assert sarif_report(analysis(), RULES) == sarif_report(analysis(), tuple(reversed(RULES)))
