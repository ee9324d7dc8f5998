"""A comparison of two reports as JSON."""

from __future__ import annotations

from trtdiag.report.comparison import Change, Comparison
from trtdiag.report.json_parts import Json, range_json, strings
from trtdiag.report.record import RecordedEngines, RecordedSymbol


def comparison_json(found: Comparison) -> Json:
    """Findings by state, engines and symbols before and after."""
    before, after = found.engines
    return {
        "earlier": found.earlier,
        "notes": strings(found.notes),
        "new": [_change_json(change) for change in found.of("new")],
        "fixed": [_change_json(change) for change in found.of("fixed")],
        "unchanged": [_change_json(change) for change in found.of("unchanged")],
        "engines": {"before": _engines_json(before), "after": _engines_json(after)},
        "symbols": [
            {"name": each.name, "before": _symbol_json(each.before), "after": _symbol_json(each.after)}
            for each in found.symbols
        ],
        "calls": [
            {"sizes": sizes, "before_ms": before_ms, "after_ms": after_ms}
            for sizes, (before_ms, after_ms) in found.calls_ms.items()
        ],
    }


def _change_json(change: Change) -> Json:
    finding = change.finding
    return {
        "id": finding.id,
        "rule": finding.rule,
        "severity": finding.severity.value,
        "severity_before": None if change.before is None else change.before.value,
        "message": finding.message,
        "fingerprint": str(finding.fingerprint),
    }


def _engines_json(found: RecordedEngines | None) -> Json:
    if found is None:
        return None
    return {
        "engines": found.engines,
        "ops_in_engines": found.inside,
        "ops": found.ops,
        "engine_bytes": found.engine_bytes,
        "latency_ms": dict(found.latency_ms),
    }


def _symbol_json(symbol: RecordedSymbol | None) -> Json:
    if symbol is None:
        return None
    profile = symbol.profile
    return {
        "range": range_json(symbol.range),
        "profile": None if profile is None else {"min": profile[0], "opt": profile[1], "max": profile[2]},
    }
