"""What loaded engines say of themselves: memory that PyTorch does not count, and whether they can be recorded."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.engine.backend import Runner
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_cache import CACHE
from trtdiag.runtime.engine_nodes import engine_nodes


def engines_bytes(compiled: CompiledProgram) -> int | None:
    """Return the scratch memory of a program's engines; ``None`` where one does not say.

    They share the memory of the one that needs most; it is there before a call that is not the first.
    """
    runners = list(_runners(compiled))
    known: list[int] = [runner.scratch_bytes for runner in runners if hasattr(runner, "scratch_bytes")]
    return max(known, default=0) if len(known) == len(runners) else None


def unrecordable(compiled: CompiledProgram) -> str:
    """Return why none of a program's engines can be recorded as a CUDA graph; empty where one can."""
    found = [str(getattr(runner, "unrecordable", "it is no engine of TensorRT")) for runner in _runners(compiled)]
    return found[0] if found and all(found) else ""


def _runners(compiled: CompiledProgram) -> Iterator[Runner]:
    for node in engine_nodes(compiled.exported_program):
        yield CACHE.get(node.manifest, node.engine)
