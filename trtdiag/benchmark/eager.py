"""PyTorch itself."""

from __future__ import annotations

from typing import Any

from trtdiag.benchmark.clock import Call
from trtdiag.benchmark.half import arguments, runnable
from trtdiag.benchmark.original import Original
from trtdiag.benchmark.ways import Ready
from trtdiag.runtime.compiled import CompiledProgram


def prepare(original: Original, compiled: CompiledProgram) -> Ready:
    """Return the original's module, op by op."""
    del compiled
    module, computes = runnable(original, original.inputs(original.sizes("opt")))

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        args, kwargs = arguments(original, computes, (args, kwargs))
        return lambda: module(*args, **kwargs)

    return Ready(bind, computes, build_s=0.0)
