"""The JSON report: schema ``trtdiag-report/1``, keys always in the same order, what varies between runs at the end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trtdiag.analysis.coverage import no_work
from trtdiag.analysis.finding import Finding, Impact, Place
from trtdiag.analysis.result import Analysis
from trtdiag.frontend.program import Program
from trtdiag.report.json_compiled import compiled_json
from trtdiag.report.json_facts import dims_json, dtypes_json, guards_json, memory_json, metadata_json, symbols_json
from trtdiag.report.json_partition import partition_json
from trtdiag.report.json_parts import Json, frame_json, json_text, range_json, strings
from trtdiag.report.json_tried import tried_builds_json
from trtdiag.report.record import SCHEMA
from trtdiag.report.settings import settings_of
from trtdiag.report.verdict import cause_trees, verdict

SCHEMA_PATH = Path(__file__).parent / "schema" / "report-1.schema.json"


def json_report(analysis: Analysis) -> str:
    """The report as JSON text: valid UTF-8 whatever the names, equal between runs up to the key ``timings``."""
    return body_text(report_json(analysis))


def body_text(body: Mapping[str, Json]) -> str:
    """A report of plain lists and dicts as JSON text."""
    return json_text(dict(body)) + "\n"


def with_page(body: Mapping[str, Json], page: Json) -> dict[str, Json]:
    """The report with what its page shows, from which the page is drawn again without the model."""
    return {**body, "page": page}


def report_json(analysis: Analysis, comparison: Json = None) -> dict[str, Json]:
    """The report as plain lists and dicts; findings stand in the order of the page, roots before what they cause."""
    result = verdict(analysis)
    findings = [finding for tree in cause_trees(analysis.findings) for finding in tree.walk()]
    return {
        "schema": SCHEMA,
        "tool": {"name": "trtdiag", "version": analysis.trtdiag_version},
        "program": _program_json(analysis.program, analysis.op_nodes),
        "target": analysis.target,
        "settings": {name: _setting_json(value) for name, value, _ in settings_of(analysis.options)},
        "verdict": {"status": result.status, "text": result.text, "caveat": result.caveat},
        "findings": [_finding_json(finding) for finding in findings],
        "dims": dims_json(analysis.dims),
        "symbols": symbols_json(analysis.symbols, analysis.profiles),
        "guards": guards_json(analysis.dims),
        "dtypes": dtypes_json(analysis.dtypes),
        "memory": memory_json(analysis.memory),
        "metadata": metadata_json(analysis.checked),
        "no_work": None
        if analysis.checked is None
        else [{"kind": each.kind.value, "op": each.op, "calls": each.calls} for each in no_work(analysis.checked)],
        "partition": partition_json(analysis.partition),
        "compiled": compiled_json(analysis.compilation, analysis.program.names, analysis.partition),
        "tried_builds": tried_builds_json(analysis.tried),
        "bench": None,
        "comparison": comparison,
        "versions": {
            "running_torch": analysis.program.versions.running_torch,
            "exporting_torch": analysis.program.versions.exporting_torch,
            "schema": analysis.program.versions.schema,
            "running_schema": analysis.program.versions.running_schema,
        },
        "stages": [{"name": s.name, "state": s.state, "message": s.message} for s in analysis.stages],
        "not_checked": strings(analysis.not_checked),
        "timings": {
            "export_s": analysis.program.export_s,
            "stages": [{"name": s.name, "seconds": s.seconds} for s in analysis.stages],
            "tried_builds_s": [engine.seconds for engine in analysis.tried.engines] if analysis.tried else [],
        },
    }


def _program_json(program: Program, op_nodes: int) -> Json:
    failure = program.failure
    return {
        "label": program.label,
        "kind": program.kind.value,
        "file_bytes": program.file_bytes,
        "op_nodes": op_nodes,
        "inputs": [
            {
                "name": tensor.name,
                "dtype": None if tensor.dtype is None else str(tensor.dtype).removeprefix("torch."),
                "dims": [
                    {
                        "site": dim.site,
                        "declared": dim.declared,
                        "declared_range": range_json(dim.declared_range),
                        "hint": dim.hint,
                    }
                    for dim in tensor.dims
                ],
            }
            for tensor in program.inputs
        ],
        "failure": None
        if failure is None
        else {
            "error_type": failure.error_type,
            "message": failure.message,
            "relaxed": failure.relaxed,
            "source": frame_json(failure.stack.best),
        },
        "notes": strings(program.notes),
    }


def _finding_json(finding: Finding) -> Json:
    fix = finding.fix
    return {
        "id": finding.id,
        "rule": finding.rule,
        "name": finding.name,
        "title": finding.title,
        "severity": finding.severity.value,
        "message": finding.message,
        "evidence": [{"fact": e.fact, "source": e.source} for e in finding.evidence],
        "places": [_place_json(place) for place in finding.places],
        "fix": None
        if fix is None
        else {"title": fix.title, "applicability": fix.applicability.value, "code": fix.code},
        "impact": None if finding.impact is None else _impact_json(finding.impact),
        "root": finding.root,
        "fingerprint": finding.fingerprint,
    }


def _impact_json(impact: Impact) -> Json:
    return {"engines": impact.engines, "ops": impact.ops, "crossing_bytes": impact.crossing_bytes}


def _setting_json(value: object) -> Json:
    if isinstance(value, tuple):
        return [_setting_json(each) for each in value]
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def _place_json(place: Place) -> Json:
    return {
        "node": place.node,
        "op": place.op,
        "module_path": place.module_path,
        "source": frame_json(place.frame),
    }
