"""Memory of engines on the GPU."""

from __future__ import annotations

from typing import Any


def scratch_bytes(engine: Any) -> int:
    """The memory that a run of an engine takes beside weights, inputs and outputs."""
    newer = getattr(engine, "device_memory_size_v2", None)
    return int(engine.device_memory_size if newer is None else newer)
