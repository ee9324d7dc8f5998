"""The greatest tensor of a network at the greatest sizes: where memory is short, what it is short for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from trtdiag.engine.backend import Profile
from trtdiag.network import Network, Placed
from trtdiag.symbolic import Sym, evaluate

_SHARE = 4
"""Own choice: a tensor of a quarter of the workspace and its neighbours, two or three of that size, fill it."""
_MIB = 1 << 20
_MOST_ELEMENTS = 2**31 - 1
"""TensorRT 8.6 says of an input with more: "tensor volume exceeds 2147483647"."""


@dataclass(frozen=True)
class _Output:
    """An output of a layer: how many elements and bytes it has."""

    placed: Placed
    count: int
    size_bytes: int


def short_of_memory(network: Network, profile: Profile, workspace_mib: int | None) -> str:
    """The greatest tensor and the workspace in words; empty where the one is small beside the other.

    TensorRT 8.6.0 says "Could not find any implementation" where the workspace is too small (seen on an H200: attention
    with scores of 2 GiB and a workspace of 4 GiB; 32 GiB were enough).
    """
    if workspace_mib is None:
        return ""
    found = _greatest(network, _sizes(network, profile))
    if found is None or found.size_bytes * _SHARE < workspace_mib * _MIB:
        return ""
    return (
        f"at the greatest sizes the output of {network.describe(found.placed)} has {found.size_bytes // _MIB:,} MiB,"
        f" and what is not in or out of the engine must fit into a workspace of {workspace_mib:,} MiB"
    )


def too_many_elements(network: Network, profile: Profile) -> str:
    """The greatest tensor in words, where it has more elements than a tensor of TensorRT can have; empty where not.

    TensorRT 8.6.0 says "Could not find any implementation" of such a layer, too (seen on an H200).
    """
    found = _greatest(network, _sizes(network, profile))
    if found is None or found.count <= _MOST_ELEMENTS:
        return ""
    where = network.describe(found.placed)
    return f"at the greatest sizes the output of {where} has {found.count:,} elements, more than 2^31 - 1"


def _greatest(network: Network, values: Mapping[str, int]) -> _Output | None:
    """The output of most bytes; those whose sizes only the data tells do not count."""
    best: _Output | None = None
    for placed in network.layers:
        for number in placed.outputs:
            tensor = network.tensors[number]
            try:
                # A size may be no integer at the end of a range of which only every second number is possible.
                count = int(prod(evaluate(dim, values) for dim in tensor.shape))
            except (KeyError, ZeroDivisionError, OverflowError):
                continue
            found = _Output(placed, count, count * tensor.dtype.torch.itemsize)
            if best is None or found.size_bytes > best.size_bytes:
                best = found
    return best


def _sizes(network: Network, profile: Profile) -> Mapping[str, int]:
    """The greatest value of every symbol that is the size of an input."""
    found: dict[str, int] = {}
    for port, tensor in zip(network.inputs, network.input_types, strict=True):
        for size, own in zip(tensor.values or tensor.shape, profile[port.name], strict=True):
            if isinstance(size, Sym) and own.max is not None:
                found.setdefault(size.name, own.max)
    return found
