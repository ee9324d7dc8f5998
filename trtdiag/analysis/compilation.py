"""What became of compiling a program: its engines, and whether they give what the original gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from trtdiag.analysis.backend_times import Optimization
from trtdiag.calibration.facts import QuantizationFacts
from trtdiag.convert.facts import ConvertedSegment
from trtdiag.engine.manifest import Manifest
from trtdiag.runtime.engine_layers import ToldLayers
from trtdiag.verification.facts import Verification


@dataclass(frozen=True)
class EngineFacts:
    """One engine.

    Attributes:
        manifest: What it says of itself.
        engine_bytes: Its size.
        ops: How many ops of the lowered graph it holds; ``None`` where its network is not at hand.
        layers: How many layers of each kind its network has, the most frequent first; empty where it is not at hand.
        saved: Whether it came from the engine cache; ``None`` where there is none.
        built: The layers that the backend made of them.
        gpu_bytes: The size of its engine for each GPU generation, where it holds one for each.
        pairs: The names of its inputs that are the pairs of an int64; empty where its network is not at hand.
    """

    manifest: Manifest
    engine_bytes: int
    ops: int | None = None
    layers: Mapping[str, int] | None = None
    saved: bool | None = None
    built: ToldLayers = field(default_factory=ToldLayers)
    gpu_bytes: Mapping[str, int] = field(default_factory=dict)
    pairs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CompilationFacts:
    """What became of compiling.

    Attributes:
        engines: In the order of execution; after them those that the program had before it was compiled.
        verification: The comparison with the original; ``None`` where it was not asked for.
        notes: What was built otherwise than planned, since TensorRT refused it or built it wrongly, in words.
        optimization: What was measured to choose how each segment runs, where that was asked for.
        quantization: What quantizing the program costs, where it was calibrated here.
    """

    engines: tuple[EngineFacts, ...]
    verification: Verification | None
    notes: tuple[str, ...] = ()
    optimization: Optimization | None = None
    quantization: QuantizationFacts | None = None


def engine_facts(
    manifest: Manifest,
    engine_bytes: int,
    converted: ConvertedSegment | None = None,
    built: ToldLayers | None = None,
    *,
    saved: bool | None = None,
) -> EngineFacts:
    """The facts of one engine; ``converted`` is what it was built from, where that is at hand."""
    built = built or ToldLayers()
    if converted is None:
        return EngineFacts(manifest, engine_bytes, saved=saved, built=built)
    kinds = Counter(placed.layer.kind for placed in converted.network.layers)
    ops, layers = len(converted.segment.ops), dict(kinds.most_common())
    pairs = pairs_of_int64(converted, manifest)
    return EngineFacts(manifest, engine_bytes, ops, layers, saved, built, pairs=pairs)


def pairs_of_int64(converted: ConvertedSegment, manifest: Manifest) -> frozenset[str]:
    """The names of an engine's inputs that are the pairs of an int64."""
    inputs = zip(converted.inputs, manifest.inputs, strict=True)
    return frozenset(port.name for crossing, port in inputs if crossing.as_pairs)
