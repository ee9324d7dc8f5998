"""The facts of the bench stage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trtdiag.report.comparison import OURS
from trtdiag.wording import told_name

AS_EXPORTED = "as exported"
"""What a way computes in that changes no dtypes."""
MOST_TOLD = 4
"""Sizes in the text of a comparison."""


@dataclass(frozen=True)
class Spread:
    """Milliseconds of many calls.

    Attributes:
        median: Half of them took no longer.
        low: A tenth took no longer.
        high: A tenth took longer.
        calls: How many there were.
    """

    median: float
    low: float
    high: float
    calls: int


@dataclass(frozen=True)
class WayResult:
    """One way to run the program, at one set of sizes.

    Attributes:
        way: Its name: ``trtdiag``, ``eager``.
        computes: What it computes in, in words: ``float32``, ``float16 (autocast)``.
        ms: How long a call takes among others in a row; ``None`` where it cannot run.
        alone_ms: How long it takes from one call until its result is there, with nothing else waiting.
        per_s: Calls in a second, one after the other without waiting.
        ratio: Its median, of that of the compiled program.
        build_s: Preparing it, the first call left out; ``None`` where that is not known.
        bytes: The most memory that a call takes beside weights, inputs and what was there before; ``None`` where that
            is not known.
        failed: Why it cannot run; empty where it can.
    """

    way: str
    computes: str = ""
    ms: Spread | None = None
    alone_ms: Spread | None = None
    per_s: float | None = None
    ratio: float | None = None
    build_s: float | None = None
    bytes: int | None = None
    failed: str = ""


@dataclass(frozen=True)
class SizeResult:
    """All ways at one set of sizes.

    Attributes:
        label: What was asked for: ``opt``, ``batch=4``.
        sizes: By the user's names of dims.
        inputs: Name, dtype and shape of each input, in words.
        ways: The compiled program first.
    """

    label: str
    sizes: Mapping[str, int]
    inputs: tuple[str, ...]
    ways: tuple[WayResult, ...]


def _told(way: WayResult) -> str:
    """``eager 2.4 ms (1.9x)``, or that it cannot run."""
    if way.ms is None:
        return f"{way.way} cannot run here"
    times = "" if way.ratio is None or way.way == OURS else f" ({way.ratio:.2f}x)"
    return f"{way.way} {way.ms.median:.3g} ms{times}"


@dataclass(frozen=True, repr=False)
class Benchmark:
    """A comparison of speed.

    Attributes:
        device: What everything ran on: ``cpu``, ``NVIDIA H200``.
        backend: Of the engines; ``none`` where the program has none.
        tensorrt: The version that built them, where it was one.
        torch: Its version.
        precision: What the program was compiled to compute in.
        rounds: How often the ways took turns.
        networks: Hashes of the engines' networks, which say what was timed.
        results: By sizes.
    """

    device: str
    backend: str
    tensorrt: str | None
    torch: str
    precision: str
    rounds: int
    networks: tuple[str, ...]
    results: tuple[SizeResult, ...]

    def __repr__(self) -> str:
        lines = [f"Benchmark on {self.device}, engines of {self.backend}, precision {self.precision}"]
        for result in self.results[:MOST_TOLD]:
            lines.append(f"  {told_name(result.label)}: {', '.join(_told(way) for way in result.ways)}")
        if len(self.results) > MOST_TOLD:
            lines.append(f"  and {len(self.results) - MOST_TOLD} more sizes")
        return "\n".join(lines)

    def to_json(self) -> str:
        """Everything as a JSON text."""
        return json.dumps(self.as_json(), indent=1) + "\n"

    def as_json(self) -> dict[str, Any]:
        """Everything as plain lists and dicts, which a report takes up (``SavedReport.with_times``)."""
        return json.loads(json.dumps({"schema": "trtdiag-bench/1", **asdict(self)}))  # type: ignore[no-any-return]
