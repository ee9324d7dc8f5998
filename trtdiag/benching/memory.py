"""Memory of engines that does not show in the peak of a call."""

from __future__ import annotations

import torch

from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_cache import CACHE
from trtdiag.runtime.engine_nodes import engine_nodes


def engines_bytes(compiled: CompiledProgram) -> int | None:
    """Return the scratch memory of a program's engines; ``None`` where one does not say.

    They share the memory of the one that needs most; it is there before a call that is not the first.
    """
    most = 0
    for node in engine_nodes(compiled.exported_program):
        device = node.manifest.device
        if device == "cuda":
            device = f"cuda:{torch.cuda.current_device()}"
        own = getattr(CACHE.get(node.manifest, node.engine, device), "scratch_bytes", None)
        if own is None:
            return None
        most = max(most, own)
    return most
