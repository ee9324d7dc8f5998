"""The sizes of an engine's outputs that the data decides, as its manifest says them."""

from __future__ import annotations

from collections.abc import Mapping

from trtdiag.engine.manifest import EngineOutput
from trtdiag.network import Network
from trtdiag.network.aliased_outputs import written_inputs
from trtdiag.symbolic import Expr, Num, Range, Sym, bounds, free_symbols


def counted_dims(
    network: Network, given: frozenset[str]
) -> tuple[tuple[EngineOutput, ...], Mapping[str, Expr | None], Mapping[str, Range]]:
    """The outputs of a network; of the sizes that the data decides the counts, as in a manifest, and the ranges.

    Who reads an output sees its sizes alone.  So each symbol that they are made of is a dim by itself: in the place of
    ``u0 + 1``, where no output has ``u0``, there is a symbol of its own.

    Args:
        network: The network.
        given: The symbols that its inputs give.
    """
    dims = [size for tensor in network.output_types for size in tensor.shape]
    plain = given | {size.name for size in dims if isinstance(size, Sym)}
    renamed: dict[Expr, Sym] = {}
    for size in dims:
        if size not in renamed and not free_symbols(size) <= plain:
            renamed[size] = Sym(_free_name(network, len(renamed)))
    written = written_inputs(network)
    outputs = tuple(
        EngineOutput(
            port.name, tensor.dtype.torch, tuple(renamed.get(size, size) for size in tensor.shape), written.get(index)
        )
        for index, (port, tensor) in enumerate(zip(network.outputs, network.output_types, strict=True))
    )
    counts: dict[str, Expr | None] = {}
    ranges: dict[str, Range] = {}
    for name in sorted(plain - given):
        counts[name] = _most(network, network.counts[name], given)
        ranges[name] = network.ranges.get(name, Range(0, None))
    for size, own in renamed.items():
        extent = bounds(size, network.ranges).range
        counts[own.name] = None if extent.max is None else Num(extent.max)
        ranges[own.name] = Range(max(0, extent.min or 0), extent.max)
    return outputs, counts, ranges


def _most(network: Network, most: Expr, given: frozenset[str]) -> Expr | None:
    if free_symbols(most) <= given:
        return most
    highest = bounds(most, network.ranges).range.max
    return None if highest is None else Num(highest)


def _free_name(network: Network, index: int) -> str:
    name = f"n{index}"
    while name in network.ranges or name in network.counts:
        name += "_"
    return name
