"""Memory of engines that PyTorch does not count."""

from __future__ import annotations

import torch

from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_cache import CACHE
from trtdiag.runtime.engine_nodes import engine_nodes


def engines_bytes(compiled: CompiledProgram) -> int | None:
    """Return the scratch memory of all engines of a program; ``None`` where one does not say.

    Each engine has memory of its own, whether or not it runs.
    """
    total = 0
    for node in engine_nodes(compiled.exported_program):
        device = node.manifest.device
        if device == "cuda":
            device = f"cuda:{torch.cuda.current_device()}"
        own = getattr(CACHE.get(node.manifest, node.engine, device), "scratch_bytes", None)
        if own is None:
            return None
        total += own
    return total
