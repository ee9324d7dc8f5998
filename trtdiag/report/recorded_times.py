"""What ``trtdiag bench`` measured, read from its JSON: a report holds it, and comparisons read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OURS = "trtdiag"
"""The compiled program among the ways."""


@dataclass(frozen=True)
class RecordedWay:
    """One way to run the program; numbers are ``None`` where it could not run, ``failed`` says why then.

    Attributes:
        name: ``trtdiag``, ``eager``.
        computes: What it computes in, in words.
        median_ms: Of a call among others.
        low_ms: A tenth of the calls took no longer.
        high_ms: A tenth took longer.
        ratio: Its median, of that of the compiled program.
        failed: Empty where it ran.
    """

    name: str
    computes: str
    median_ms: float | None
    low_ms: float | None
    high_ms: float | None
    ratio: float | None
    failed: str


@dataclass(frozen=True)
class RecordedTimes:
    """A benchmark.

    Attributes:
        device: What everything ran on.
        made_with: Backend, TensorRT, torch and rounds, in words.
        networks: Hashes of the networks of the engines that were timed.
        ways: By the sizes (``batch=4, h=640``) that they were timed at.
    """

    device: str
    made_with: str
    networks: tuple[str, ...]
    ways: Mapping[str, tuple[RecordedWay, ...]]

    @property
    def calls_ms(self) -> dict[str, float]:
        """Milliseconds of a call of the compiled program, by sizes; without those where it could not run."""
        ours = {sizes: way for sizes, ways in self.ways.items() for way in ways if way.name == OURS}
        return {sizes: way.median_ms for sizes, way in ours.items() if way.median_ms is not None}


def read_times(body: Mapping[str, Any]) -> RecordedTimes:
    """The benchmark in plain lists and dicts that fit the schema."""
    tensorrt = f", TensorRT {body['tensorrt']}" if body["tensorrt"] else ""
    return RecordedTimes(
        device=body["device"],
        made_with=f"torch {body['torch']}, engines by {body['backend']}{tensorrt}, {body['rounds']} rounds",
        networks=tuple(body["networks"]),
        ways={_sizes(each): tuple(_way(way) for way in each["ways"]) for each in body["results"]},
    )


def _sizes(body: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sorted(body["sizes"].items())) or "its fixed sizes"


def _way(body: Mapping[str, Any]) -> RecordedWay:
    spread = body["ms"] or {"median": None, "low": None, "high": None}
    return RecordedWay(
        name=body["way"],
        computes=body["computes"],
        median_ms=spread["median"],
        low_ms=spread["low"],
        high_ms=spread["high"],
        ratio=body["ratio"],
        failed=body["failed"],
    )
