"""PyTorch itself."""

from __future__ import annotations

from trtdiag.benchmark.half import way_of
from trtdiag.benchmark.original import Original
from trtdiag.benchmark.ways import Ready
from trtdiag.runtime.compiled import CompiledProgram


def prepare(original: Original, compiled: CompiledProgram) -> Ready:
    """Return the original's module, op by op."""
    del compiled
    return way_of(original, build_s=0.0)
