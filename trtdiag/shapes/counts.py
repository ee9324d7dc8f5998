"""The most that a size from data can be, where the op that bears it says so: an engine's profile needs an end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Graph, Node

from trtdiag.graph.operators import named_arguments, operator_of, target_name
from trtdiag.graph.values import NodeReader, TensorValue, Value
from trtdiag.shapes.symbols import is_backed
from trtdiag.symbolic import Expr, Num, Range, Sym, bounds, free_symbols, maximum, mul

Dims = tuple[Expr, ...]
Most = Callable[[Node, Callable[[Any], "Dims | None"]], "Expr | None"]
"""The most elements that an op finds, where its second argument gives the dims of a tensor argument."""


def counted_ranges(graph: Graph, reader: NodeReader, ranges: Mapping[str, Range]) -> dict[str, Range]:
    """Return the ranges, where a symbol born from data has no other end with the one that its op has.

    torch knows it only where all sizes are numbers, or does not know it at all (``unique``).

    Cost: linear in nodes.
    """
    found = dict(ranges)
    for node in graph.nodes:
        most = _MOST.get(target_name(node.target)) if node.op == "call_function" else None
        if most is None or operator_of(node) is None:
            continue
        names = [name for name in _born(node, reader) if found.get(name, Range(0, None)).max is None]
        limit = most(node, lambda argument: _dims(argument, reader)) if names else None
        highest = None if limit is None else bounds(limit, found).range.max
        for name in names if highest is not None else ():
            found[name] = Range(max(0, found.get(name, Range(0, None)).min or 0), highest)
    return found


def _born(node: Node, reader: NodeReader) -> set[str]:
    """The symbols from data that its outputs have as sizes, and its inputs have not."""
    own = {dim.name for value in reader.read(node) for dim in _sizes(value) if isinstance(dim, Sym)}
    read = [value for source in node.all_input_nodes for value in reader.read(source)]
    known = frozenset().union(*(free_symbols(dim) for value in read for dim in _sizes(value)))
    return {name for name in own - known if not is_backed(name)}


def _sizes(value: Value) -> Dims:
    return value.dims if isinstance(value, TensorValue) else ()


def _dims(argument: Any, reader: NodeReader) -> Dims | None:
    values = reader.read(argument) if isinstance(argument, Node) else ()
    value = values[0] if values else None
    return value.dims if isinstance(value, TensorValue) else None


def _all(node: Node, dims: Callable[[Any], Dims | None]) -> Expr | None:
    own = dims(node.args[0])
    return None if own is None else mul(1, *own)


def _masked(node: Node, dims: Callable[[Any], Dims | None]) -> Expr | None:
    one, other = dims(node.args[0]), dims(node.args[1])
    if one is None or other is None:
        return None
    rank = max(len(one), len(other))
    wide = [(Num(1),) * (rank - len(each)) + each for each in (one, other)]
    return mul(1, *(maximum(*pair) for pair in zip(*wide, strict=True)))


def _index(node: Node, dims: Callable[[Any], Dims | None]) -> Expr | None:
    for index in node.args[1]:  # type: ignore[union-attr]  # its schema says so
        if isinstance(index, Node) and index.meta["val"].dtype is torch.bool:
            own = dims(index)
            return None if own is None else mul(1, *own)
    return None


def _along(node: Node, dims: Callable[[Any], Dims | None]) -> Expr | None:
    """Of one dim, which is an argument; of all elements where it is ``None``."""
    own = dims(node.args[0])
    op = operator_of(node)
    assert op is not None
    dim = named_arguments(node, op)["dim"]
    if own is None or dim is None:
        return None if own is None else mul(1, *own)
    return own[int(dim)]


def _first(node: Node, dims: Callable[[Any], Dims | None]) -> Expr | None:
    own = dims(node.args[0])
    return None if not own else own[0]


_MOST: Mapping[str, Most] = {
    "aten.nonzero.default": _all,
    "aten.nonzero_numpy.default": _all,
    "aten.argwhere.default": _all,
    "aten.where.default": _all,
    "aten.index.Tensor": _index,
    "aten._unsafe_index.Tensor": _index,
    "aten.masked_select.default": _masked,
    "aten._unique.default": _all,
    "aten._unique2.default": _all,
    "aten.unique_consecutive.default": _along,
    "aten.unique_dim.default": _along,
    "aten.unique_dim_consecutive.default": _along,
    "torchvision.nms.default": _first,
}
