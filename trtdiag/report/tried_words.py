"""What the real builder said of planned engines, in words and as a table."""

from __future__ import annotations

from trtdiag.analysis.tried_builds import TriedBuilds, TriedEngine
from trtdiag.report.page import Part, table
from trtdiag.wording import amount, bytes_text, one_line

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
