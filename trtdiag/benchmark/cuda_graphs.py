"""The compiled program with its engines' runs recorded as CUDA graphs."""

from __future__ import annotations

from trtdiag.benchmark.original import Original
from trtdiag.benchmark.run import of_program, unrecordable
from trtdiag.benchmark.ways import Ready
from trtdiag.errors import PlatformError
from trtdiag.runtime.compiled import CompiledProgram

_SIZES = 8
"""Own choice: more than are timed in one run."""


def prepare(original: Original, compiled: CompiledProgram) -> Ready:
    """Return a program of its own with the same engines, which records.

    Raises:
        PlatformError: ``no-cuda-graphs`` where the engines do not run on a GPU, or cannot be recorded.
    """
    message, why, instead = "the engines cannot be recorded as CUDA graphs", "", "for fixed sizes"
    if original.device.type != "cuda":
        message, why = "there are no CUDA graphs here", f"the engines run on {original.device}"
        instead = "with the backend 'tensorrt'"
    why = why or unrecordable(compiled)
    if why:
        fix = f"leave cuda-graphs out, or compile {instead}"
        raise PlatformError(message, because=why, fix=fix, reference="no-cuda-graphs")
    recorded = CompiledProgram(compiled.exported_program, options=compiled.options, build_s=compiled.build_s)
    return of_program(recorded.cuda_graphs(_SIZES))
