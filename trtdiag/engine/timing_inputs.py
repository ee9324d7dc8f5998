"""Inputs of the sizes that an engine was tuned for, for timing it: what their values are makes no difference there."""

from __future__ import annotations

import torch

from trtdiag.engine.manifest import EngineInput, Manifest

_SEED = 8191
"""So that two timings read the same values."""


def usual_inputs(manifest: Manifest, device: torch.device | str) -> list[torch.Tensor]:
    """One tensor for each input, of its usual sizes; sizes as tensors without dims on the CPU, as runners take them.

    Floats are normal; integers are 0, an index that every dim has.
    """
    generator = torch.Generator().manual_seed(_SEED)
    return [_one(port, device, generator) for port in manifest.inputs]


def _one(port: EngineInput, device: torch.device | str, generator: torch.Generator) -> torch.Tensor:
    if port.is_size:
        return torch.tensor(port.profile[0].opt, dtype=port.dtype)
    shape = [dim.opt for dim in port.profile]
    if not port.dtype.is_floating_point:
        return torch.zeros(shape, dtype=port.dtype, device=device)
    return torch.randn(shape, generator=generator).to(port.dtype).to(device)
