"""The report as SARIF 2.1.0, for editors and code hosts.

Source: OASIS Static Analysis Results Interchange Format 2.1.0; code hosts show at most 100 locations of a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from trtdiag.analysis.explain import RuleMeta
from trtdiag.analysis.finding import Applicability, Finding, Severity
from trtdiag.analysis.result import Analysis
from trtdiag.report.json_report import report_json
from trtdiag.report.record import Record, read_record
from trtdiag.report.sarif_places import location, related_locations
from trtdiag.report.strict_json import Json, json_text
from trtdiag.report.text import visible

SCHEMA_URI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "trtdiag/v1"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def sarif_report(analysis: Analysis, rules: Sequence[RuleMeta] = (), root: Path | None = None) -> str:
    """The report as SARIF text, the same for the same analysis.

    Args:
        analysis: The facts and findings.
        rules: Every rule that could have fired; a finding of another rule brings its own description.
        root: Files under it get relative addresses; the working directory where not given.
    """
    return sarif_text(read_record(report_json(analysis)), rules, root)


def sarif_text(record: Record, rules: Sequence[RuleMeta] = (), root: Path | None = None) -> str:
    """The same of a report that was read from its JSON."""
    return json_text(sarif_log(record, rules, root or Path.cwd())) + "\n"


def sarif_log(record: Record, rules: Sequence[RuleMeta], root: Path) -> dict[str, Json]:
    """The SARIF log as plain lists and dicts."""
    findings = record.findings
    descriptors = _descriptors(rules, findings)
    index = {str(descriptor["id"]): at for at, descriptor in enumerate(descriptors)}
    return {
        "$schema": SCHEMA_URI,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "trtdiag",
                        "semanticVersion": record.version,
                        "rules": list(descriptors),
                    }
                },
                "invocations": [_invocation(record)],
                "results": [_result(finding, index[finding.rule], root) for finding in findings],
                "properties": {
                    "program": record.label,
                    "target": record.target,
                    "verdict": record.verdict,
                    "notChecked": list(record.not_checked),
                },
            }
        ],
    }


def _descriptors(rules: Sequence[RuleMeta], findings: Iterable[Finding]) -> list[dict[str, Json]]:
    known: dict[str, dict[str, Json]] = {}
    for rule in sorted(rules, key=lambda rule: rule.id):
        known[rule.id] = _descriptor(rule.id, rule.name, rule.title, rule.severity, rule.page)
    for finding in findings:
        known.setdefault(
            finding.rule, _descriptor(finding.rule, finding.name, finding.title, finding.severity, finding.title)
        )
    return list(known.values())


def _descriptor(rule: str, name: str, title: str, severity: Severity, page: str) -> dict[str, Json]:
    return {
        "id": rule,
        "name": name,
        "shortDescription": {"text": title or rule},
        "fullDescription": {"text": page or title or rule},
        "help": {"text": page or title or rule},
        "defaultConfiguration": {"level": _LEVELS[severity]},
    }


def _invocation(record: Record) -> Json:
    failed = [stage for stage in record.stages if stage.state == "failed"]
    notes: list[Json] = [
        {"level": "error", "message": {"text": f"stage {stage.name} failed: {stage.message}"}} for stage in failed
    ]
    notes += [
        {"level": "note", "message": {"text": f"stage {stage.name} not run"}}
        for stage in record.stages
        if stage.state == "not run"
    ]
    if record.difference:
        notes.append({"level": "error", "message": {"text": visible(f"the compiled program {record.difference}")}})
    notes += [{"level": "note", "message": {"text": f"not checked: {text}"}} for text in record.not_checked]
    return {"executionSuccessful": not failed, "toolExecutionNotifications": notes}


def _result(finding: Finding, rule_index: int, root: Path) -> Json:
    framed = [place for place in finding.places if place.frame is not None]
    first = framed[0] if framed else next(iter(finding.places), None)
    others = [place for place in finding.places if place is not first]
    found = location(first, root) if first is not None else None
    related = related_locations(others, root)
    body: dict[str, Json] = {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": _LEVELS[finding.severity],
        "message": {"text": _message(finding)},
        "locations": [found] if found else [],
    }
    if related:
        body["relatedLocations"] = related
    body["partialFingerprints"] = {FINGERPRINT: str(finding.fingerprint)}
    body["properties"] = _properties(finding)
    return body


def _message(finding: Finding) -> str:
    """The message, the evidence, and a safe fix in words: SARIF's own fixes need text edits, which we do not make."""
    parts = [visible(finding.message)]
    parts += [f"- {visible(e.fact)} ({visible(e.source)})" for e in finding.evidence]
    if finding.fix is not None and finding.fix.applicability is Applicability.SAFE:
        parts.append(f"Fix (safe): {visible(finding.fix.title)}")
        if finding.fix.code:
            parts.append(visible(finding.fix.code))
    return "\n".join(parts)


def _properties(finding: Finding) -> Json:
    properties: dict[str, Json] = {"id": finding.id, "root": finding.root, "places": len(finding.places)}
    if finding.fix is not None:
        properties["fix"] = {
            "title": finding.fix.title,
            "applicability": finding.fix.applicability.value,
            "code": finding.fix.code,
        }
    return properties
