"""The most that a size from data can be, where the op that bears it says so: an engine's profile needs an end."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch.fx import Graph, Node

from trtdiag.graph.operators import operator_of, target_name
from trtdiag.graph.values import NodeReader, TensorValue, Value
from trtdiag.shapes.op_call import OpCall, UnreadableError
from trtdiag.shapes.shape_constraints import broadcast_shape, elements
from trtdiag.shapes.symbols import is_backed
from trtdiag.symbolic import Expr, Range, Sym, bounds, free_symbols

Most = Callable[[OpCall], Expr]
"""The most elements that an op finds."""


def counted_ranges(graph: Graph, reader: NodeReader, ranges: Mapping[str, Range]) -> dict[str, Range]:
    """Return the ranges, where a symbol born from data has no other end with the one that its op has.

    torch knows it only where all sizes are numbers, or does not know it at all (``unique``).

    Cost: linear in nodes.
    """
    found = dict(ranges)
    for node in graph.nodes:
        op = operator_of(node)
        most = None if op is None else _MOST.get(target_name(op))
        if op is None or most is None:
            continue
        names = [name for name in _born(node, reader) if found.get(name, Range(0, None)).max is None]
        try:
            highest = bounds(most(OpCall(node, op, reader)), found).range.max if names else None
        except UnreadableError:
            continue
        for name in names if highest is not None else ():
            found[name] = Range(max(0, found.get(name, Range(0, None)).min or 0), highest)
    return found


def _born(node: Node, reader: NodeReader) -> set[str]:
    """The symbols from data that its outputs have as sizes, and its inputs have not."""
    own = {dim.name for value in reader.read(node) for dim in _sizes(value) if isinstance(dim, Sym)}
    read = [value for source in node.all_input_nodes for value in reader.read(source)]
    known = frozenset().union(*(free_symbols(dim) for value in read for dim in _sizes(value)))
    return {name for name in own - known if not is_backed(name)}


def _sizes(value: Value) -> tuple[Expr, ...]:
    return value.dims if isinstance(value, TensorValue) else ()


def _all_of(name: str) -> Most:
    return lambda call: elements(call.shape(name))


def _index(call: OpCall) -> Expr:
    masks = [one.dims for one in call.optional_tensors("indices") if one is not None and one.dtype is torch.bool]
    if not masks:
        raise UnreadableError("indices")
    return elements(masks[0])


def _along(call: OpCall) -> Expr:
    """Of one dim, which is an argument; of all elements where it is ``None``."""
    shape = call.shape("self")
    return elements(shape) if call.given("dim") is None else shape[call.number("dim")]


_MOST: Mapping[str, Most] = {
    "aten.nonzero.default": _all_of("self"),
    "aten.nonzero_numpy.default": _all_of("self"),
    "aten.argwhere.default": _all_of("self"),
    "aten.where.default": _all_of("condition"),
    "aten.index.Tensor": _index,
    "aten._unsafe_index.Tensor": _index,
    "aten.masked_select.default": lambda call: elements(broadcast_shape((call.shape("self"), call.shape("mask")))),
    "aten._unique.default": _all_of("self"),
    "aten._unique2.default": _all_of("self"),
    "aten.unique_consecutive.default": _along,
    "aten.unique_dim.default": _along,
    "aten.unique_dim_consecutive.default": _along,
    "torchvision.nms.default": lambda call: call.shape("dets")[0],
}
