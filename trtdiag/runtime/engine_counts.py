"""The sizes that an engine found against what the program asserts of them, after it ran."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from trtdiag.engine.manifest import EngineOutput, Manifest
from trtdiag.errors import ShapeOutOfRangeError
from trtdiag.graph.size_check import refuse_size
from trtdiag.runtime.symbol_values import read_numbers, symbol_values
from trtdiag.symbolic import Sym, free_symbols, holds, to_text


def check_counts(manifest: Manifest, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
    """Refuse a result whose size PyTorch would not have gone on with: an ``amax`` of nothing, for example.

    Raises:
        ShapeOutOfRangeError: ``engine-count``: names the output, its size and what is allowed; ``assumed-size`` where
            the user assumed it.
    """
    values = symbol_values(read_numbers(manifest, [tensor.shape for tensor in inputs]))
    seen: dict[str, EngineOutput] = {}
    for port, tensor in zip(manifest.outputs, outputs, strict=True):
        for dim, size in zip(port.dims, tensor.shape, strict=True):
            if isinstance(dim, Sym) and dim.name in manifest.counts:
                seen.setdefault(dim.name, port)
                if values.setdefault(dim.name, size) != size:
                    raise _refused(port, size, f"{values[dim.name]}, as many as {seen[dim.name].name!r} has")
    for name, port in seen.items():
        if values[name] not in manifest.ranges[name]:
            if (said := manifest.assumed.get(name)) is not None:
                raise refuse_size(values[name], said.least, said.most, said.name, said.place)
            raise _refused(port, values[name], f"{manifest.ranges[name]}")
    for condition in manifest.conditions:
        names = free_symbols(condition) & seen.keys()
        if names and not holds(condition, values):
            name = min(names)
            raise _refused(seen[name], values[name], f"{name} where {to_text(condition)}")


def _refused(port: EngineOutput, size: int, allowed: str) -> ShapeOutOfRangeError:
    return ShapeOutOfRangeError(
        f"an engine found {size} elements for {port.name!r}, which the program does not take",
        because=f"the values of its inputs decide how many there are; allowed is {allowed}",
        fix="look at the values of the inputs, and at what the model asserts about this size",
        reference="engine-count",
    )
