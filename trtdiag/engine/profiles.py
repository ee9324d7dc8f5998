"""The sizes that the engine of a network is built for, and inputs of those that it was tuned for, to time it with."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from trtdiag.engine.backend import Profile
from trtdiag.engine.manifest import EngineInput, Manifest
from trtdiag.network import Network, Tensor
from trtdiag.shapes.profile import DimProfile, input_profile
from trtdiag.symbolic import Expr, bounds, evaluate, free_symbols

# The numbers that a size can be where nothing bounds it; sizes are int64 in PyTorch.
_LEAST = -(2**63)
_SEED = 8191
"""So that two timings read the same values."""


def network_profile(network: Network, opt: Mapping[str, int]) -> Profile:
    """The profile of every input of a network: one entry for each dim, and for a size one for its value.

    Args:
        network: Its ranges give the ends.
        opt: The usual size of each symbol of the program; those of the network's own symbols follow from it.
    """
    usual = dict(opt)
    for name, definition in network.definitions.items():
        if name not in usual and free_symbols(definition) <= usual.keys():
            usual[name] = int(evaluate(definition, usual))
    return {
        port.name: _of_input(tensor, network, usual)
        for port, tensor in zip(network.inputs, network.input_types, strict=True)
    }


def size_value(tensor: Tensor) -> Expr | None:
    """The number that an input carries, where it is a size; ``None`` for a tensor."""
    return tensor.values[0] if tensor.rank == 0 and tensor.values is not None else None


def _of_input(tensor: Tensor, network: Network, usual: Mapping[str, int]) -> tuple[DimProfile, ...]:
    value = size_value(tensor)
    return input_profile(tensor.shape, network.ranges, usual) if value is None else (_of_size(value, network, usual),)


def _of_size(value: Expr, network: Network, usual: Mapping[str, int]) -> DimProfile:
    """A size may be negative, unlike a dim."""
    found = bounds(value, network.ranges).range
    low = _LEAST if found.min is None else found.min
    names = free_symbols(value)
    middle = int(evaluate(value, usual)) if names <= usual.keys() else max(low, 1)
    middle = max(low, middle)
    return DimProfile(low, middle if found.max is None else min(middle, found.max), found.max)


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
