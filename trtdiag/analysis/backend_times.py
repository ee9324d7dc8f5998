"""What ``--optimize latency`` measured, and what it chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

INDUCTOR = "inductor"
"""The backend of segments that AOTInductor compiled."""
_NAMES = {"tensorrt": "TensorRT", INDUCTOR: "AOTInductor"}


def way_name(backend: str) -> str:
    """What users call the backend that runs a part."""
    return _NAMES.get(backend, backend)


@dataclass(frozen=True)
class BlockTimes:
    """A block of the program, built in each way.

    Attributes:
        module: The module that most of its ops belong to, empty for the root's own.
        first: Its first op node.
        ops: How many ops it has.
        like: How many blocks of the program are alike: they were measured once.
        times_ms: Milliseconds of a run at the usual sizes, by the name of the backend.
        refused: Why a backend does not have it, by name.
        chosen: The backend that runs it in the program.
    """

    module: str
    first: str
    ops: int
    like: int
    times_ms: Mapping[str, float]
    refused: Mapping[str, str] = field(default_factory=dict)
    chosen: str = ""


@dataclass(frozen=True)
class WholeTime:
    """The whole program, its blocks run in one way or in several.

    Attributes:
        name: How, in words: ``TensorRT``, ``AOTInductor``, ``TensorRT and AOTInductor, 3 changes``.
        segments: How many engines and segments of AOTInductor it has.
        time_ms: Milliseconds from a call until its result is there, at the usual sizes; ``None`` where it did not run.
        why_not: Why it was not taken; empty for the one that was.
    """

    name: str
    segments: int
    time_ms: float | None
    why_not: str = ""


@dataclass(frozen=True)
class PyTorchSegmentTimes:
    """Ops that stay with PyTorch, one by one and compiled by AOTInductor.

    Attributes:
        module: The module that all of them belong to, empty for the root.
        first: The first op node.
        ops: How many ops they are.
        like: How many segments of the program are alike: they were measured once.
        eager_ms: Milliseconds of a run one by one at the usual sizes; ``None`` where that was not measured.
        compiled_ms: Milliseconds of a call of the compiled code; ``None`` where there is none.
        compiled: Whether the program calls the compiled code.
        why: Why it does, or does not, in words.
    """

    module: str
    first: str
    ops: int
    like: int
    eager_ms: float | None
    compiled_ms: float | None
    compiled: bool
    why: str


@dataclass(frozen=True)
class Optimization:
    """What was measured to choose how each segment runs.

    Attributes:
        sizes: The sizes that it was measured at, by symbol.
        device: What it was measured on, in words.
        blocks: In the order of execution.
        wholes: What was timed whole, the one without a choice first.
        notes: What was left out, in words.
        pytorch_segments: What stays with PyTorch beside engines, in the order of execution.
    """

    sizes: Mapping[str, int]
    device: str
    blocks: tuple[BlockTimes, ...]
    wholes: tuple[WholeTime, ...]
    notes: tuple[str, ...] = ()
    pytorch_segments: tuple[PyTorchSegmentTimes, ...] = ()
