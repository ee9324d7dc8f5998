"""A report read from its JSON: what SARIF, Markdown and comparisons need, whether it was just made or saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trtdiag.analysis.finding import Applicability, Evidence, Finding, Fix, Impact, Place, Severity
from trtdiag.analysis.result import StageTiming
from trtdiag.graph.source import Frame
from trtdiag.report.recorded_times import RecordedTimes, read_times
from trtdiag.symbolic.ranges import Range

SCHEMA = "trtdiag-report/1"


@dataclass(frozen=True)
class RecordedSymbol:
    """A symbol by the user's name: its range, and least, usual and greatest size of the profile where it has one."""

    name: str
    range: Range | None
    profile: tuple[int, int, int | None] | None


@dataclass(frozen=True)
class RecordedEngines:
    """How a program was split.

    Attributes:
        engines: How many.
        inside: Ops in engines.
        ops: All ops that compute.
        engine_bytes: Of the built engines; ``None`` where none was built.
        latency_ms: Milliseconds of each engine's layers together, by engine; empty where they were not timed.
    """

    engines: int
    inside: int
    ops: int
    engine_bytes: int | None
    latency_ms: Mapping[str, float]


@dataclass(frozen=True)
class Record:
    """A report.

    Attributes:
        version: Of the trtdiag that made it.
        label: The program.
        target: The TensorRT version.
        status: Of the verdict.
        verdict: The verdict line.
        findings: In the order of the page.
        stages: How each stage went, without its time.
        not_checked: In words.
        difference: How the compiled program differs from the original; empty where it does not.
        engines: ``None`` where nothing was planned.
        symbols: In the order of the program.
        networks: Hashes of the networks of the built engines; empty where none was built.
        times: What ``bench`` measured; ``None`` where it was not run.
    """

    version: str
    label: str
    target: str
    status: str
    verdict: str
    findings: tuple[Finding, ...]
    stages: tuple[StageTiming, ...]
    not_checked: tuple[str, ...]
    difference: str
    engines: RecordedEngines | None
    symbols: tuple[RecordedSymbol, ...]
    networks: tuple[str, ...] = ()
    times: RecordedTimes | None = None


def read_record(body: Mapping[str, Any]) -> Record:
    """The record of a JSON report that was just made, or that was held against the schema (``saved.read_report``)."""
    compiled = body["compiled"] or {"engines": (), "verification": None}
    return Record(
        version=body["tool"]["version"],
        label=body["program"]["label"],
        target=body["target"],
        status=body["verdict"]["status"],
        verdict=body["verdict"]["text"],
        findings=tuple(_finding(each) for each in body["findings"]),
        stages=tuple(StageTiming(each["name"], each["state"], 0.0, each["message"]) for each in body["stages"]),
        not_checked=tuple(body["not_checked"]),
        difference=(compiled["verification"] or {"difference": None})["difference"] or "",
        engines=_engines(body),
        symbols=tuple(_symbol(each) for each in body["symbols"] or ()),
        networks=tuple(each["network_hash"] for each in compiled["engines"]),
        times=None if body["bench"] is None else read_times(body["bench"]),
    )


def _finding(body: Mapping[str, Any]) -> Finding:
    fix, impact = body["fix"], body["impact"]
    return Finding(
        id=body["id"],
        rule=body["rule"],
        name=body["name"],
        title=body["title"],
        severity=Severity(body["severity"]),
        message=body["message"],
        evidence=tuple(Evidence(each["fact"], each["source"]) for each in body["evidence"]),
        places=tuple(
            Place(each["node"], each["module_path"], _frame(each["source"]), each["op"]) for each in body["places"]
        ),
        fix=None if fix is None else Fix(fix["title"], Applicability(fix["applicability"]), fix["code"]),
        root=body["root"],
        fingerprint=body["fingerprint"],
        impact=None if impact is None else Impact(impact["engines"], impact["ops"], impact["crossing_bytes"]),
    )


def _frame(body: Mapping[str, Any] | None) -> Frame | None:
    return None if body is None else Frame(body["file"], body["line"], body["function"], body["code"])


def _engines(body: Mapping[str, Any]) -> RecordedEngines | None:
    split = body["partition"]
    if split is None:
        return None
    inside = sum(len(segment["ops"]) for segment in split["segments"])
    left = sum(bool(each["computes"]) for each in split["left_to_pytorch"])
    built: Sequence[Mapping[str, Any]] | None = (body["compiled"] or {}).get("engines")
    return RecordedEngines(
        engines=len(split["segments"]),
        inside=inside,
        ops=inside + left,
        engine_bytes=None if built is None else sum(engine["bytes"] for engine in built),
        latency_ms=dict(_latencies(built or ())),
    )


def _latencies(engines: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    for engine in engines:
        times = [layer["time_ms"] for layer in engine["built"]["layers"] if layer["time_ms"] is not None]
        if times:
            yield f"engine {engine['index']}", float(sum(times))


def _symbol(body: Mapping[str, Any]) -> RecordedSymbol:
    extent, profile = body["range"], body["profile"]
    return RecordedSymbol(
        name=body["name"],
        range=None if extent is None else Range(extent["min"], extent["max"]),
        profile=None if profile is None else (profile["min"], profile["opt"], profile["max"]),
    )
