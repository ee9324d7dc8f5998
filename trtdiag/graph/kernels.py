"""Which devices an op has a kernel for, which torch keeps private."""

from __future__ import annotations

import torch
from torch._ops import OpOverload

_KEYS = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta"}


def has_kernel(op: OpOverload, device: str) -> bool:
    """Whether this torch can run an op on a type of device; of types that it was not asked about it is assumed."""
    key = _KEYS.get(device)
    asked = torch._C._dispatch_has_computed_kernel_for_dispatch_key  # noqa: SLF001 - torch has no public way to ask
    return key is None or bool(asked(op.name(), key))  # type: ignore[no-untyped-call]
