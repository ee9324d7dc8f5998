"""What using a tensor as an index says about its values: anything else would have been an error already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node

from trtdiag.dtypes.call import dtype_of
from trtdiag.dtypes.index_cover import covering_uses
from trtdiag.dtypes.interval_ops.rearranging import KEEPING
from trtdiag.dtypes.nested_graphs import ALWAYS_RUN, operands
from trtdiag.dtypes.value_span import Span, limits
from trtdiag.graph.operators import OpOverload, short_name, target_name
from trtdiag.graph.walk import NodeKind, classify
from trtdiag.shapes.facts import ShapeFacts

_CASTS = frozenset({"to", "_to_copy", "type_as", "convert_element_type"})
_JOINING = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack"})
# Ops with (table, dim, index, ...) arguments that refuse negative and too large indices.
_BY_DIM = frozenset({"gather", "index_select", "scatter", "scatter_add", "index_add", "index_copy", "scatter_reduce"})
# The same, but negative ones count from the end.
_BY_DIM_FROM_BOTH_ENDS = frozenset({"index_fill"})
# Far from every table's size on one side and from the ends of int64 on the other.
_MOST_ADDED = 2**61
_BY_POSITION = frozenset({"index", "index_put"})


@dataclass(frozen=True, slots=True)
class IndexUse:
    """Values of a tensor lie in ``low..high``, because the table that it indexes ends there."""

    low: int
    high: int
    why: str

    def moved(self, low: int, high: int) -> IndexUse:
        """Return the same statement about a tensor to which ``low..high`` is added first."""
        return IndexUse(self.low - high, self.high - low, self.why)


def index_uses(
    owner: GraphModule,
    prefix: str,
    shapes: ShapeFacts,
    weights: Mapping[str, str],
    constants: Mapping[Node, Span],
) -> Mapping[Node, IndexUse]:
    """Return, by node of one graph, the narrowest statement that its uses as an index make.

    A statement holds for every element: it is carried back only through ops that keep all values.  One use is enough,
    because every op of a graph runs: other uses of the tensor see the same values.

    Args:
        owner: The graph's module.
        prefix: Of the graph's names.
        shapes: Sizes of the tables.
        weights: Names of the program's weights by placeholder, for the text.
        constants: Spans of the tensors that the program itself brings, which may be added to an index.
    """
    found: dict[Node, IndexUse] = {}
    for node in reversed(owner.graph.nodes):
        for index, use in _made_by(node, owner, prefix, shapes, weights):
            _narrow(found, index, use)
        parts = covering_uses(node, found, prefix, shapes)
        if parts:
            _narrow(found, node, IndexUse(min(p.low for p in parts), max(p.high for p in parts), parts[0].why))
        if node in found:
            for source, use in _carried(node, found[node], constants):
                _narrow(found, source, use)
    return found


def _narrow(found: dict[Node, IndexUse], node: Node, use: IndexUse) -> None:
    known = found.get(node)
    if known is None or use.high - use.low < known.high - known.low:
        found[node] = use


def _made_by(
    node: Node, owner: GraphModule, prefix: str, shapes: ShapeFacts, weights: Mapping[str, str]
) -> Iterator[tuple[Node, IndexUse]]:
    if not isinstance(node.target, OpOverload):
        if classify(node) is NodeKind.HIGHER_ORDER:
            yield from _inside(node, owner, prefix, shapes, weights)
        return
    op = short_name(node.target)
    if op == "embedding" and len(node.args) >= 2:
        yield from _use(node.args[1], node.args[0], 0, False, prefix, shapes, weights)
    elif op in _BY_DIM | _BY_DIM_FROM_BOTH_ENDS and len(node.args) >= 3 and isinstance(node.args[1], int):
        both_ends = op in _BY_DIM_FROM_BOTH_ENDS
        yield from _use(node.args[2], node.args[0], node.args[1], both_ends, prefix, shapes, weights)
    elif op in _BY_POSITION and len(node.args) >= 2 and isinstance(node.args[1], Sequence):
        dim = 0
        for index in node.args[1]:
            is_mask = isinstance(index, Node) and dtype_of(index) in (torch.bool, torch.uint8)
            if not is_mask:
                yield from _use(index, node.args[0], dim, True, prefix, shapes, weights)
            dim += _rank(index, prefix, shapes) if is_mask else 1


def _rank(index: object, prefix: str, shapes: ShapeFacts) -> int:
    sizes = shapes.tensors.get(prefix + index.name, ()) if isinstance(index, Node) else ()
    return len(sizes[0].dims) if sizes else 1


def _use(
    index: object,
    table: object,
    dim: int,
    may_be_negative: bool,
    prefix: str,
    shapes: ShapeFacts,
    weights: Mapping[str, str],
) -> Iterator[tuple[Node, IndexUse]]:
    if not isinstance(index, Node) or not isinstance(table, Node):
        return
    sizes = shapes.tensors.get(prefix + table.name, ())
    if not sizes or not -len(sizes[0].dims) <= dim < len(sizes[0].dims):
        return
    count = sizes[0].dims[dim].range.max
    if not count:
        return
    name = weights.get(table.name, table.name) if not prefix else table.name
    why = f"used as an index into {name} of size {count}: other values are an error in PyTorch, too"
    yield index, IndexUse(-count if may_be_negative else 0, count - 1, why)


def _inside(
    node: Node, owner: GraphModule, prefix: str, shapes: ShapeFacts, weights: Mapping[str, str]
) -> Iterator[tuple[Node, IndexUse]]:
    """What a nested graph that always runs says about the tensors handed to it."""
    if target_name(node.target) not in ALWAYS_RUN:
        return
    for nested in operands(owner, node, prefix):
        uses = index_uses(nested.graph, nested.prefix, shapes, {}, {})
        for placeholder, value in nested.bound:
            if placeholder in uses and isinstance(value, Node):
                yield value, uses[placeholder]


def _carried(node: Node, use: IndexUse, constants: Mapping[Node, Span]) -> Iterator[tuple[Node, IndexUse]]:
    if not isinstance(node.target, OpOverload) or not node.args:
        return
    op, first = short_name(node.target), node.args[0]
    if op in _JOINING and isinstance(first, Sequence):
        yield from ((item, use) for item in first if isinstance(item, Node))
    if not isinstance(first, Node):
        return
    if (op in KEEPING and _same_dtype(first, node)) or (op in _CASTS and _widens(first, node)):
        yield first, use
    elif op in ("add", "sub") and len(node.args) == 2 and not node.kwargs:
        yield from _moved(node, op, first, node.args[1], use, constants)


def _moved(
    node: Node, op: str, first: Node, second: object, use: IndexUse, constants: Mapping[Node, Span]
) -> Iterator[tuple[Node, IndexUse]]:
    """Carry a statement back over ``x + c``: what wraps around lands nowhere near a table's indices."""
    added = _constant(second, constants)
    if added is not None and _same_dtype(first, node):
        yield first, use.moved(*added) if op == "add" else use.moved(-added[1], -added[0])
    added = _constant(first, constants)
    if added is not None and op == "add" and isinstance(second, Node) and _same_dtype(second, node):
        yield second, use.moved(*added)


def _constant(value: object, constants: Mapping[Node, Span]) -> tuple[int, int] | None:
    """Return the ends of an integer constant, ``None`` for what is none or so large that sums wrap into the table."""
    if isinstance(value, Node) and value in constants:
        span = constants[value]
        low, high = span.low, span.high
    elif isinstance(value, int):
        low = high = value
    else:
        return None
    if not isinstance(low, int) or not isinstance(high, int) or low < -_MOST_ADDED or high > _MOST_ADDED:
        return None
    return low, high


def _same_dtype(source: Node, node: Node) -> bool:
    return dtype_of(source) == dtype_of(node)


def _widens(source: Node, node: Node) -> bool:
    """Whether a cast keeps every value: a narrowing one would bring wrong values back into the table."""
    before, after = limits(dtype_of(source)), limits(dtype_of(node))
    return not dtype_of(source).is_floating_point and after[0] <= before[0] and after[1] >= before[1]
