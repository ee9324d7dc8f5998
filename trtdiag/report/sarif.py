"""The report as SARIF 2.1.0, for editors and code hosts.

Source: OASIS Static Analysis Results Interchange Format 2.1.0; code hosts show at most 100 locations of a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from trtdiag.analysis.rule import Rule
from trtdiag.report.comparison import Body
from trtdiag.report.sarif_places import bases, location, related_locations, repository_root
from trtdiag.report.strict_json import Json, json_text
from trtdiag.report.verdict import severity_word
from trtdiag.wording import visible

SCHEMA_URI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "trtdiag/v1"


def sarif_text(report: Body, rules: Sequence[Rule] = (), root: Path | None = None) -> str:
    """A report as SARIF text, the same for the same analysis.

    Args:
        report: In plain lists and dicts.
        rules: Every rule that could have fired; a finding of another rule brings its own description.
        root: Files under it get relative addresses; the repository, or the working directory outside of one, where not
            given.
    """
    return json_text(sarif_log(report, rules, root or repository_root())) + "\n"


def sarif_log(report: Body, rules: Sequence[Rule], root: Path) -> dict[str, Json]:
    """The SARIF log as plain lists and dicts."""
    findings = report["findings"]
    descriptors = _descriptors(rules, findings)
    index = {str(descriptor["id"]): at for at, descriptor in enumerate(descriptors)}
    driver = {"name": "trtdiag", "semanticVersion": report["tool"]["version"], "rules": descriptors}
    results = [_result(finding, index[finding["rule"]], root) for finding in findings]
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        **bases(results),
        "invocations": [_invocation(report)],
        "results": results,
        "properties": {
            "program": report["program"]["label"],
            "target": report["target"],
            "verdict": report["verdict"]["text"],
            "notChecked": report["not_checked"],
        },
    }
    return {"$schema": SCHEMA_URI, "version": "2.1.0", "runs": [run]}


def _descriptors(rules: Sequence[Rule], findings: Iterable[Body]) -> list[dict[str, Json]]:
    known: dict[str, dict[str, Json]] = {}
    for rule in sorted(rules, key=lambda rule: rule.id):
        known[rule.id] = _descriptor(rule.id, rule.name, rule.title, rule.severity.value, rule.text)
    for finding in findings:
        told = [finding[key] for key in ("rule", "name", "title", "severity", "title")]
        known.setdefault(finding["rule"], _descriptor(*told))
    return list(known.values())


def _descriptor(rule: str, name: str, title: str, severity: str, page: str) -> dict[str, Json]:
    return {
        "id": rule,
        "name": name,
        "shortDescription": {"text": title or rule},
        "fullDescription": {"text": page or title or rule},
        "help": {"text": page or title or rule},
        "defaultConfiguration": {"level": severity_word(severity)},
    }


def _invocation(report: Body) -> Json:
    stages = {state: [each for each in report["stages"] if each["state"] == state] for state in ("failed", "not run")}
    verification = (report["compiled"] or {"verification": None})["verification"]
    told = [("error", f"stage {stage['name']} failed: {stage['message']}") for stage in stages["failed"]]
    told += [("note", f"stage {stage['name']} not run") for stage in stages["not run"]]
    if verification and verification["difference"]:
        told.append(("error", visible(f"the compiled program {verification['difference']}")))
    told += [("note", f"not checked: {text}") for text in report["not_checked"]]
    notes: list[Json] = [{"level": level, "message": {"text": text}} for level, text in told]
    return {"executionSuccessful": not stages["failed"], "toolExecutionNotifications": notes}


def _result(finding: Body, rule_index: int, root: Path) -> Json:
    places = finding["places"]
    first = next((place for place in places if place["source"] is not None), next(iter(places), None))
    found = location(first, root) if first is not None else None
    related = related_locations([place for place in places if place is not first], root)
    return {
        "ruleId": finding["rule"],
        "ruleIndex": rule_index,
        "level": severity_word(finding["severity"]),
        "message": {"text": _message(finding)},
        "locations": [found] if found else [],
        **({"relatedLocations": related} if related else {}),
        "partialFingerprints": {FINGERPRINT: str(finding["fingerprint"])},
        "properties": _properties(finding),
    }


def _message(finding: Body) -> str:
    """The message, the evidence, and a safe fix in words: SARIF's own fixes need text edits, which we do not make."""
    fix = finding["fix"]
    parts = [finding["message"], *(f"- {each['fact']} ({each['source']})" for each in finding["evidence"])]
    if fix is not None and fix["applicability"] == "safe":
        parts += [f"Fix (safe): {fix['title']}", *([fix["code"]] if fix["code"] else [])]
    return "\n".join(map(visible, parts))


def _properties(finding: Body) -> Json:
    fix = finding["fix"]
    return {
        "id": finding["id"],
        "root": finding["root"],
        "places": len(finding["places"]),
        **({} if fix is None else {"fix": {key: fix[key] for key in ("title", "applicability", "code")}}),
    }
