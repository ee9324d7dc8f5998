"""The sizes of an engine's outputs that the data decides, as its manifest says them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, Union

from trtdiag.engine.manifest import EngineOutput
from trtdiag.network import Network
from trtdiag.network.aliased_outputs import written_inputs
from trtdiag.symbolic import Expr, Num, Range, Sym, bounds, free_symbols

Counted: TypeAlias = tuple[tuple[EngineOutput, ...], Mapping[str, Union[Expr, None]], Mapping[str, Range]]
"""Outputs, what each count can be at most, and its range, as in a manifest."""


def counted_dims(network: Network, given: frozenset[str]) -> Counted:
    """The outputs of a network; of the sizes that the data decides the counts, as in a manifest, and the ranges.

    Args:
        network: The network.
        given: The symbols that its inputs give.
    """
    written = written_inputs(network)
    outputs = [
        EngineOutput(port.name, tensor.dtype.torch, tensor.shape, written.get(index))
        for index, (port, tensor) in enumerate(zip(network.outputs, network.output_types, strict=True))
    ]
    return counted(outputs, network.counts, network.ranges, given)


def counted(
    outputs: Sequence[EngineOutput],
    most: Mapping[str, Expr | None],
    known: Mapping[str, Range],
    given: frozenset[str],
) -> Counted:
    """Outputs with sizes that are at hand, the counts among them, and their ranges.

    Who reads an output sees its sizes alone.  So each symbol that they are made of is a dim by itself: in the place of
    ``u0 + 1``, where no output has ``u0``, there is a symbol of its own.

    Args:
        outputs: Their sizes over any symbols.
        most: The symbols that the data decides, and what each is at most, where that is known.
        known: The range of each symbol.
        given: The symbols that the inputs give.
    """
    dims = [size for port in outputs for size in port.dims]
    plain = given | {size.name for size in dims if isinstance(size, Sym)}
    renamed: dict[Expr, Sym] = {}
    for size in dims:
        if size not in renamed and not free_symbols(size) <= plain:
            renamed[size] = Sym(_free_name({*known, *most}, len(renamed)))
    named = tuple(replace(port, dims=tuple(renamed.get(size, size) for size in port.dims)) for port in outputs)
    counts: dict[str, Expr | None] = {}
    ranges: dict[str, Range] = {}
    for name in sorted(plain - given):
        counts[name] = _most(most[name], known, given)
        ranges[name] = known.get(name, Range(0, None))
    for size, own in renamed.items():
        extent = bounds(size, known).range
        counts[own.name] = None if extent.max is None else Num(extent.max)
        ranges[own.name] = Range(max(0, extent.min or 0), extent.max)
    return named, counts, ranges


def _most(most: Expr | None, known: Mapping[str, Range], given: frozenset[str]) -> Expr | None:
    if most is None or free_symbols(most) <= given:
        return most
    highest = bounds(most, known).range.max
    return None if highest is None else Num(highest)


def _free_name(taken: Collection[str], index: int) -> str:
    name = f"n{index}"
    while name in taken:
        name += "_"
    return name
