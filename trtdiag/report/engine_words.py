"""What goes into engines, in one line."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.analysis.result import Analysis
from trtdiag.engine.manifest import Manifest
from trtdiag.targets import target_name
from trtdiag.wording import amount, joined, listed, one_line

_NAMED_OPS = 3


def engines_line(analysis: Analysis) -> str:
    """``TensorRT 11.4: 341 of 346 ops in 3 engines, 5 stay in PyTorch``; empty where nothing was planned."""
    if analysis.partition is None:
        return ""
    inside, every = op_counts(analysis.partition)
    engines = amount(len(analysis.partition.partitioned.segments), "engine")
    rest = "" if inside == every else f", {every - inside:,} stay in PyTorch"
    return f"{one_line(target_name(analysis.target))}: {inside:,} of {amount(every, 'op')} in {engines}{rest}"


def together_line(analysis: Analysis) -> str:
    """``without aten.sort.default and aten.nonzero.default: 1 engine``; empty where nothing left out costs engines."""
    facts = analysis.partition
    if facts is None or facts.together is None or not facts.joint:
        return ""
    others = [f" (and {amount(group.other_ops, 'other op')})" if group.other_ops else "" for group in facts.joint]
    ops = list(dict.fromkeys(f"{one_line(group.op)}{more}" for group, more in zip(facts.joint, others, strict=True)))
    named = joined(ops) if len(ops) <= _NAMED_OPS else listed(ops, _NAMED_OPS)
    return f"without {named}: {amount(facts.together.segments_after, 'engine')}"


def saved_words(saved: Sequence[bool | None]) -> str:
    """``2 of 3 engines from the engine cache``; empty where there was no cache."""
    asked = [found for found in saved if found is not None]
    return f"{sum(asked)} of {amount(len(asked), 'engine')} from the engine cache" if asked else ""


def also_words(manifest: Manifest) -> str:
    """Where else than where it was built an engine runs, as a clause; empty where it does not."""
    where = manifest.compatibility
    words = []
    if where.hardware == "ampere+":
        words.append("GPUs of Ampere and later")
    elif where.hardware == "same-compute-capability":
        words.append(f"GPUs of compute capability {where.compute_capability}")
    if where.versions:
        major = (manifest.tensorrt or "").partition(".")[0]
        words.append(f"later TensorRT versions of {major}.x")
    return f"for {' and '.join(words)}" if words else ""


def op_counts(facts: PartitionFacts) -> tuple[int, int]:
    """The ops in engines, and all that compute."""
    inside = sum(len(segment.ops) for segment in facts.partitioned.segments)
    return inside, inside + sum(fallback.computes for fallback in facts.partitioned.fallback)
