"""A report read from its JSON: what SARIF, Markdown and comparisons need, whether it was just made or saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, get_args, get_origin, get_type_hints

from trtdiag.analysis.finding import Finding, Place
from trtdiag.analysis.stage_timing import StageTiming
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic.ranges import Range

SCHEMA = "trtdiag-report/1"
OURS = "trtdiag"
"""The compiled program among the ways to run a program."""
_KEYS: Mapping[Any, Mapping[str, str]] = {Place: {"frame": "source"}}
"""Fields that the JSON calls otherwise."""


@dataclass(frozen=True)
class RecordedSymbol:
    """A symbol by the user's name: its range, and the profile where it has one."""

    name: str
    range: Range | None
    profile: DimProfile | None


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
class Spread:
    """Milliseconds of a call among others: the median, and what a tenth of the calls stayed below and above."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class RecordedWay:
    """One way to run the program; numbers are ``None`` where it could not run, ``failed`` says why then.

    Attributes:
        way: ``trtdiag``, ``eager``.
        computes: What it computes in, in words.
        ms: How long it takes.
        ratio: Its median, of that of the compiled program.
        failed: Empty where it ran.
    """

    way: str
    computes: str
    ms: Spread | None
    ratio: float | None
    failed: str


@dataclass(frozen=True)
class RecordedResult:
    """The ways at one set of sizes."""

    sizes: Mapping[str, int]
    ways: tuple[RecordedWay, ...]

    @property
    def where(self) -> str:
        """``batch=4, h=640``."""
        return ", ".join(f"{name}={size}" for name, size in sorted(self.sizes.items())) or "its fixed sizes"


@dataclass(frozen=True)
class RecordedTimes:
    """What ``trtdiag bench`` measured; ``networks`` are the hashes of those of the engines that were timed."""

    device: str
    backend: str
    tensorrt: str | None
    torch: str
    rounds: int
    networks: tuple[str, ...]
    results: tuple[RecordedResult, ...]

    @property
    def calls_ms(self) -> dict[str, float]:
        """Milliseconds of a call of the compiled program, by sizes; without those where it could not run."""
        ours = {result.where: way.ms for result in self.results for way in result.ways if way.way == OURS}
        return {sizes: spread.median for sizes, spread in ours.items() if spread is not None}


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
        findings=_built(tuple[Finding, ...], body["findings"]),
        stages=_built(tuple[StageTiming, ...], [{**each, "seconds": 0.0} for each in body["stages"]]),
        not_checked=tuple(body["not_checked"]),
        difference=(compiled["verification"] or {"difference": None})["difference"] or "",
        engines=_engines(body),
        symbols=_built(tuple[RecordedSymbol, ...], body["symbols"] or ()),
        networks=tuple(each["network_hash"] for each in compiled["engines"]),
        times=read_times(body["bench"]),
    )


def read_times(bench: Mapping[str, Any] | None) -> Any:
    """The benchmark in plain lists and dicts that fit the schema."""
    return _built(RecordedTimes, bench)


def _built(kind: Any, value: Any) -> Any:
    """A value that fits the schema as what a type says."""
    if value is None:
        return None
    if get_origin(kind) is tuple:
        return tuple(_built(get_args(kind)[0], item) for item in value)
    plain = next((each for each in get_args(kind) if isinstance(each, type)), kind)  # of something, or nothing
    if is_dataclass(plain):
        return plain(**{name: _built(hint, value[key]) for name, key, hint in _parts(plain) if key in value})
    return plain(value) if isinstance(plain, type) and issubclass(plain, Enum) else value


@lru_cache(maxsize=32)
def _parts(kind: Any) -> list[tuple[str, str, Any]]:
    """The name of each field, its key and its type."""
    hints, keys = get_type_hints(kind), _KEYS.get(kind, {})
    return [(each.name, keys.get(each.name, each.name), hints[each.name]) for each in fields(kind)]


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
