"""The greatest tensor of a network at the greatest sizes: where memory is short, what it is short for."""

from __future__ import annotations

from math import prod

from trtdiag.engine.backend import Profile
from trtdiag.network import Network, Placed
from trtdiag.options import MIB
from trtdiag.symbolic import Sym, evaluate

_SHARE = 4
"""Own choice: a tensor of a quarter of the workspace and its neighbours, two or three of that size, fill it."""
_MOST_ELEMENTS = 2**31 - 1
"""TensorRT 8.6 says of an input with more: "tensor volume exceeds 2147483647"."""


def too_great(network: Network, profile: Profile, workspace_mib: int | None) -> str:
    """The greatest tensor in words, where it may be why nothing is built; empty where it is not.

    It has more elements than a tensor of TensorRT can have, or is great beside the workspace.  TensorRT 8.6.0 says
    "Could not find any implementation" of both (seen on an H200: attention with scores of 2 GiB and a workspace of
    4 GiB; 32 GiB were enough).
    """
    found = _greatest(network, profile)
    if found is None:
        return ""
    placed, count, size_bytes = found
    where = f"at the greatest sizes the output of {network.describe(placed)} has"
    if count > _MOST_ELEMENTS:
        return f"{where} {count:,} elements, more than 2^31 - 1"
    if workspace_mib is None or size_bytes * _SHARE < workspace_mib * MIB:
        return ""
    return (
        f"{where} {size_bytes // MIB:,} MiB,"
        f" and what is not in or out of the engine must fit into a workspace of {workspace_mib:,} MiB"
    )


def _greatest(network: Network, profile: Profile) -> tuple[Placed, int, int] | None:
    """The layer whose output has most bytes, its elements and bytes; sizes that only the data tells do not count."""
    values: dict[str, int] = {}
    for port, tensor in zip(network.inputs, network.input_types, strict=True):
        for size, own in zip(tensor.values or tensor.shape, profile[port.name], strict=True):
            if isinstance(size, Sym) and own.max is not None:
                values.setdefault(size.name, own.max)
    best: tuple[Placed, int, int] | None = None
    for placed in network.layers:
        for tensor in (network.tensors[number] for number in placed.outputs):
            try:
                # A size may be no integer at the end of a range of which only every second number is possible.
                count = int(prod(evaluate(dim, values) for dim in tensor.shape))
            except (KeyError, ZeroDivisionError, OverflowError):
                continue
            size_bytes = count * tensor.dtype.torch.itemsize
            if best is None or size_bytes > best[2]:
                best = placed, count, size_bytes
    return best
