"""The greatest tensor of a network at the greatest sizes: where memory is short, what it is short for."""

from __future__ import annotations

from collections.abc import Mapping

from trtdiag.engine.backend import Profile
from trtdiag.network import Network, Placed, size_at
from trtdiag.symbolic import Sym

_SHARE = 4
"""Own choice: a tensor of a quarter of the workspace and its neighbours, two or three of that size, fill it."""
_MIB = 1 << 20


def short_of_memory(network: Network, profile: Profile, workspace_mib: int | None) -> str:
    """The greatest tensor and the workspace in words; empty where the one is small beside the other.

    TensorRT 8.6.0 says "Could not find any implementation" where the workspace is too small (seen on an H200: attention
    with scores of 2 GiB and a workspace of 4 GiB; 32 GiB were enough).
    """
    if workspace_mib is None:
        return ""
    found = _greatest(network, _sizes(network, profile))
    if found is None or found[1] * _SHARE < workspace_mib * _MIB:
        return ""
    placed, size = found
    return (
        f"at the greatest sizes the output of {network.describe(placed)} has {size // _MIB:,} MiB, and what is not in "
        f"or out of the engine must fit into a workspace of {workspace_mib:,} MiB"
    )


def _greatest(network: Network, values: Mapping[str, int]) -> tuple[Placed, int] | None:
    """The layer with the greatest output, and its bytes; those whose sizes only the data tells do not count."""
    best: tuple[Placed, int] | None = None
    for placed in network.layers:
        for number in placed.outputs:
            tensor = network.tensors[number]
            size = tensor.dtype.torch.itemsize
            try:
                for dim in tensor.shape:
                    size *= size_at(dim, values)
            except KeyError:
                continue
            if best is None or size > best[1]:
                best = placed, size
    return best


def _sizes(network: Network, profile: Profile) -> Mapping[str, int]:
    """The greatest value of every symbol that is the size of an input."""
    found: dict[str, int] = {}
    for port, tensor in zip(network.inputs, network.input_types, strict=True):
        for size, own in zip(tensor.values or tensor.shape, profile[port.name], strict=True):
            if isinstance(size, Sym) and own.max is not None:
                found.setdefault(size.name, own.max)
    return found
