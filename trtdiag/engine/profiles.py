"""The sizes that the engine of a network is built for, and inputs of those that it was tuned for, to time it with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from trtdiag.engine.backend import Profile
from trtdiag.engine.manifest import EngineInput, Manifest
from trtdiag.network import Network, Tensor
from trtdiag.shapes.profile import DimProfile, input_profile
from trtdiag.symbolic import Expr, Range, bounds, evaluate, free_symbols
from trtdiag.symbolic.bounds import rounded_bounds

# The numbers that a size can be where nothing bounds it; sizes are int64 in PyTorch.
_LEAST = -(2**63)
_SEED = 8191
"""So that two timings read the same values."""


class SeveralProfiles(dict[str, tuple[DimProfile, ...]]):
    """The profile of an engine that has several: as a mapping what spans all of them, tuned for what the first is.

    Args:
        parts: Each profile with its name, in the order of the engine.
    """

    def __init__(self, parts: Sequence[tuple[str, Profile]]) -> None:
        first = parts[0][1]
        super().__init__({name: tuple(map(_span, *(own[name] for _, own in parts))) for name in first})
        self.parts = tuple(parts)


def _span(*sizes: DimProfile) -> DimProfile:
    ends = [size.max for size in sizes]
    most = None if None in ends else max(end for end in ends if end is not None)
    return DimProfile(min(size.min for size in sizes), sizes[0].opt, most)


def several(parts: Sequence[tuple[str, Profile]]) -> Profile:
    """One profile of these; what takes no other sizes than an earlier one is left out, for that is used first.

    Args:
        parts: Each profile with its name; of those that take sizes the first counts.
    """
    kept: list[tuple[str, Profile]] = []
    for name, own in parts:
        if not any(_takes_all(earlier, own) for _, earlier in kept):
            kept.append((name, own))
    return kept[0][1] if len(kept) == 1 else SeveralProfiles(kept)


def _takes_all(outer: Profile, inner: Profile) -> bool:
    pairs = ((a, b) for name, own in inner.items() for a, b in zip(outer[name], own, strict=True))
    return all(a.min <= b.min and (a.max is None or (b.max is not None and b.max <= a.max)) for a, b in pairs)


def parts_of(profile: Profile) -> tuple[tuple[str, Profile], ...]:
    """Each profile with its name; of an engine that has one, that without a name."""
    return profile.parts if isinstance(profile, SeveralProfiles) else (("", profile),)


def built_profile(manifest: Manifest) -> Profile:
    """What an engine was built for."""
    if not manifest.profiles:
        return {port.name: port.profile for port in manifest.inputs}
    names = [port.name for port in manifest.inputs]
    return SeveralProfiles([(own.name, dict(zip(names, own.sizes, strict=True))) for own in manifest.profiles])


def network_profile(network: Network, opt: Mapping[str, int], box: Mapping[str, Range] | None = None) -> Profile:
    """The profile of every input of a network: one entry for each dim, and for a size one for its value.

    Args:
        network: Its ranges give the ends.
        opt: The usual size of each symbol of the program; those of the network's own symbols follow from it.
        box: A part of the ranges, by symbols of the program, where not all of them are wanted.
    """
    usual = dict(opt)
    for name, definition in network.definitions.items():
        if name not in usual and free_symbols(definition) <= usual.keys():
            usual[name] = int(evaluate(definition, usual))
    ranges = network.ranges if box is None else _narrowed(network, box)
    return {
        port.name: _of_input(tensor, ranges, usual)
        for port, tensor in zip(network.inputs, network.input_types, strict=True)
    }


def size_value(tensor: Tensor) -> Expr | None:
    """The number that an input carries, where it is a size; ``None`` for a tensor."""
    return tensor.values[0] if tensor.rank == 0 and tensor.values is not None else None


def _narrowed(network: Network, box: Mapping[str, Range]) -> Mapping[str, Range]:
    """The ranges of a network's symbols in a part of those of the program."""
    ranges = {name: own.intersect(box[name]) if name in box else own for name, own in network.ranges.items()}
    every = {**box, **ranges}
    for name, definition in network.definitions.items():
        if name in ranges and free_symbols(definition) <= every.keys():
            narrower = ranges[name].intersect(rounded_bounds(definition, every))
            ranges[name] = every[name] = ranges[name] if narrower.empty else narrower
    return ranges


def _of_input(tensor: Tensor, ranges: Mapping[str, Range], usual: Mapping[str, int]) -> tuple[DimProfile, ...]:
    value = size_value(tensor)
    return input_profile(tensor.shape, ranges, usual) if value is None else (size_profile(value, ranges, usual),)


def size_profile(value: Expr, ranges: Mapping[str, Range], usual: Mapping[str, int]) -> DimProfile:
    """The profile of a number that enters; it may be negative, unlike a dim.

    Args:
        value: The number.
        ranges: Of the symbols of the program.
        usual: Their usual sizes.
    """
    found = bounds(value, ranges).range
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
