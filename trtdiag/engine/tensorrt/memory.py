"""Memory of engines on the GPU."""

from __future__ import annotations

from typing import Any

import torch

_MIB = 1 << 20


def scratch_bytes(engine: Any) -> int:
    """The memory that a run of an engine takes beside weights, inputs and outputs."""
    newer = getattr(engine, "device_memory_size_v2", None)
    return int(engine.device_memory_size if newer is None else newer)


def free_mib() -> int | None:
    """The memory of the current GPU that nobody has; ``None`` where it does not tell."""
    try:
        return int(torch.cuda.mem_get_info()[0]) // _MIB
    except (RuntimeError, AssertionError):  # too little even to ask, or no GPU
        return None
