"""What goes into engines, in one line, and what the real builder said of those that are planned."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.analysis.result import Analysis
from trtdiag.analysis.tried_builds import TriedBuilds, TriedEngine
from trtdiag.engine.manifest import Manifest
from trtdiag.partition.intrinsic_limits import COMPILED
from trtdiag.report.page import Part, table
from trtdiag.targets import target_name
from trtdiag.wording import amount, bytes_text, joined, listed, one_line

_NAMED_OPS = 3


def engines_line(analysis: Analysis) -> str:
    """``TensorRT 11.4: 341 of 346 ops in 3 engines, 5 stay in PyTorch``; empty where nothing was planned."""
    if analysis.partition is None:
        return ""
    (inside, every), kept = op_counts(analysis.partition), earlier_engines(analysis.partition)
    target, earlier = one_line(target_name(analysis.target)), f"{amount(kept, 'engine')} of an earlier compilation"
    if kept and every == kept:
        return f"{target}: {earlier}, and nothing to build"
    engines = amount(len(analysis.partition.partitioned.segments), "engine")
    left = every - kept - inside
    rest = f", {left:,} {'stays' if left == 1 else 'stay'} in PyTorch" if left else ""
    rest += f", beside {earlier}" if kept else ""
    return f"{target}: {inside:,} of {amount(every - kept, 'op')} in {engines}{rest}"


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


def earlier_engines(facts: PartitionFacts) -> int:
    """How many engines the program had before, which compiling leaves as they are."""
    return sum(fallback.limit is COMPILED for fallback in facts.partitioned.fallback)


def op_counts(facts: PartitionFacts) -> tuple[int, int]:
    """The ops in engines, and all that compute."""
    inside = sum(len(segment.ops) for segment in facts.partitioned.segments)
    return inside, inside + sum(fallback.computes for fallback in facts.partitioned.fallback)


_LONGEST_SAID_CHARS = 300


def tried_line(tried: TriedBuilds) -> str:
    """``TensorRT-RTX 1.7.1.116 built 3 of 3 engines for all of sm80, sm89: 12.4 MB, 5.1 s; none was run``."""
    if not tried.engines:
        return f"{one_line(tried.builder)} was given nothing to build: nothing goes into an engine"
    built = [engine for engine in tried.engines if engine.refusal is None and not engine.untried]
    size = sum(engine.engine_bytes or 0 for engine in built)
    seconds = sum(engine.seconds for engine in tried.engines)
    told = f"{one_line(tried.builder)} built {len(built):,} of {amount(len(tried.engines), 'engine')}"
    told += f" for all of {', '.join(tried.gpus)}: {bytes_text(size)}, {seconds:.1f} s"
    if len(built) < len(tried.engines) and tried.remedied:
        told += "; the rest is built otherwise, as compile does"
    late = sum(bool(engine.untried) for engine in tried.engines)
    if late:
        told += f"; {late:,} not to the end, since {tried.limit_s:,g} s (--build-limit) were over"
    warned = {text for engine in tried.engines for text in engine.warnings}
    if warned:
        told += f"; it warns of {amount(len(warned), 'thing')} (in the report)"
    told += "; none was run"
    return f"{told}; {one_line(tried.unsearched, _LONGEST_SAID_CHARS)}" if tried.unsearched else told


def tried_table(tried: TriedBuilds) -> Part:
    """A row for each engine."""
    return table(
        ("engine", "layers", "built for", "size", "seconds", "what the builder says"),
        tuple(_row(engine) for engine in tried.engines),
        kinds=("number", "number", "", "number", "number", ""),
    )


def _row(engine: TriedEngine) -> tuple[str, ...]:
    said = [f"refused for {', '.join(engine.refusal.gpus)}: {engine.refusal.because}"] if engine.refusal else []
    said += [f"not tried to the end for {', '.join(engine.untried)}"] if engine.untried else []
    said += [f"warns: {text}" for text in engine.warnings]
    built = ", ".join(engine.gpus) or "none", bytes_text(engine.engine_bytes, ""), f"{engine.seconds:.1f}"
    return str(engine.index), f"{engine.layers:,}", *built, one_line("; ".join(said), _LONGEST_SAID_CHARS)
