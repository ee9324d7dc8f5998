"""What using a tensor as an index says about its values: anything else would have been an error already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch.fx import GraphModule, Node

from trtdiag.dtypes.call import Scope, dtype_of
from trtdiag.dtypes.interval_ops.rearranging import KEEPING
from trtdiag.dtypes.nested_graphs import ALWAYS_RUN, operands
from trtdiag.dtypes.plan_uint8 import is_cast
from trtdiag.dtypes.value_span import Span, limits
from trtdiag.graph.node_kinds import NodeKind, classify
from trtdiag.graph.operators import OpOverload, operator_of, short_name, target_name
from trtdiag.grouping import grouped

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


@dataclass(frozen=True)
class IndexUses:
    """What the uses of a graph's tensors as an index say of them.

    Attributes:
        owner: The graph's module.
        scope: Sizes of the tables, and the beginning of the graph's names.
        weights: Names of the program's weights by placeholder, for the text.
        constants: Spans of the tensors that the program itself brings, which may be added to an index.
    """

    owner: GraphModule
    scope: Scope
    weights: Mapping[str, str]
    constants: Mapping[Node, Span]

    def narrowest(self) -> Mapping[Node, IndexUse]:
        """Return, by node, the narrowest statement that its uses make.

        A statement holds for every element: it is carried back only through ops that keep all values.  One use is
        enough, because every op of a graph runs: other uses of the tensor see the same values.
        """
        found: dict[Node, IndexUse] = {}

        def narrow(uses: Iterable[tuple[Node, IndexUse]]) -> None:
            for node, use in uses:
                known = found.get(node)
                if known is None or use.high - use.low < known.high - known.low:
                    found[node] = use

        for node in reversed(self.owner.graph.nodes):
            narrow(self._made_by(node))
            parts = covering_uses(node, found, self.scope)
            if parts:
                low, high = min(part.low for part in parts), max(part.high for part in parts)
                narrow([(node, IndexUse(low, high, parts[0].why))])
            if node in found:
                narrow(self._carried(node, found[node]))
        return found

    def _made_by(self, node: Node) -> Iterator[tuple[Node, IndexUse]]:
        if not isinstance(node.target, OpOverload):
            if classify(node) is NodeKind.HIGHER_ORDER and target_name(node.target) in ALWAYS_RUN:
                yield from self._inside(node)
            return
        op = short_name(node.target)
        if op == "embedding" and len(node.args) >= 2:
            yield from self._use(node.args[1], node.args[0], 0, may_be_negative=False)
        elif op in _BY_DIM | _BY_DIM_FROM_BOTH_ENDS and len(node.args) >= 3 and isinstance(node.args[1], int):
            both_ends = op in _BY_DIM_FROM_BOTH_ENDS
            yield from self._use(node.args[2], node.args[0], node.args[1], may_be_negative=both_ends)
        elif op in _BY_POSITION and len(node.args) >= 2 and isinstance(node.args[1], Sequence):
            dim = 0
            for index in node.args[1]:
                is_mask = isinstance(index, Node) and dtype_of(index) in (torch.bool, torch.uint8)
                if not is_mask:
                    yield from self._use(index, node.args[0], dim, may_be_negative=True)
                sizes = self.scope.tensor(index) if is_mask and isinstance(index, Node) else None
                dim += 1 if sizes is None else len(sizes.dims)

    def _use(self, index: object, table: object, dim: int, *, may_be_negative: bool) -> Iterator[tuple[Node, IndexUse]]:
        if not isinstance(index, Node) or not isinstance(table, Node):
            return
        sizes = self.scope.tensor(table)
        if sizes is None or not -len(sizes.dims) <= dim < len(sizes.dims):
            return
        count = sizes.dims[dim].range.max
        if count:
            name = table.name if self.scope.prefix else self.weights.get(table.name, table.name)
            why = f"used as an index into {name} of size {count}: other values are an error in PyTorch, too"
            yield index, IndexUse(-count if may_be_negative else 0, count - 1, why)

    def _inside(self, node: Node) -> Iterator[tuple[Node, IndexUse]]:
        """What a nested graph that always runs says about the tensors handed to it."""
        for nested in operands(self.owner, node, self.scope.prefix):
            scope = Scope(self.scope.shapes, self.scope.names, nested.prefix)
            uses = IndexUses(nested.graph, scope, {}, {}).narrowest()
            for placeholder, value in nested.bound:
                if placeholder in uses and isinstance(value, Node):
                    yield value, uses[placeholder]

    def _carried(self, node: Node, use: IndexUse) -> Iterator[tuple[Node, IndexUse]]:
        if not isinstance(node.target, OpOverload) or not node.args:
            return
        op, first = short_name(node.target), node.args[0]
        if op in _JOINING and isinstance(first, Sequence):
            yield from ((item, use) for item in first if isinstance(item, Node))
        if not isinstance(first, Node):
            return
        if (op in KEEPING and _same_dtype(first, node)) or (is_cast(node) and _widens(first, node)):
            yield first, use
        elif op in ("add", "sub") and len(node.args) == 2 and not node.kwargs:
            yield from self._moved(node, op, first, node.args[1], use)

    def _moved(
        self, node: Node, op: str, first: Node, second: object, use: IndexUse
    ) -> Iterator[tuple[Node, IndexUse]]:
        """Carry a statement back over ``x + c``: what wraps around lands nowhere near a table's indices."""
        added = self._constant(second)
        if added is not None and _same_dtype(first, node):
            yield first, use.moved(*added) if op == "add" else use.moved(-added[1], -added[0])
        added = self._constant(first)
        if added is not None and op == "add" and isinstance(second, Node) and _same_dtype(second, node):
            yield second, use.moved(*added)

    def _constant(self, value: object) -> tuple[int, int] | None:
        """Return the ends of an integer constant, ``None`` for what is none or so large that sums wrap into a table."""
        span = self.constants.get(value) if isinstance(value, Node) else None
        low, high = (value, value) if span is None else (span.low, span.high)
        if not isinstance(low, int) or not isinstance(high, int) or low < -_MOST_ADDED or high > _MOST_ADDED:
            return None
        return low, high


def _same_dtype(source: Node, node: Node) -> bool:
    return dtype_of(source) == dtype_of(node)


def _widens(source: Node, node: Node) -> bool:
    """Whether a cast keeps every value: a narrowing one would bring wrong values back into the table."""
    before, after = limits(dtype_of(source)), limits(dtype_of(node))
    return not dtype_of(source).is_floating_point and after[0] <= before[0] and after[1] >= before[1]


# Whether the parts of a tensor that are used as indices make up the whole tensor.


Use = TypeVar("Use")

_SPLITS = frozenset({"split", "split_with_sizes", "chunk", "tensor_split", "unsafe_split"})


def covering_uses(node: Node, found: Mapping[Node, Use], scope: Scope) -> list[Use]:
    """Return the uses of a tensor's parts where those parts hold all of its values; empty where they do not.

    Parts are rows and stretches along one dim of a fixed size: ``x[:, 0]`` to ``x[:, n-1]``, ``x.unbind(1)``,
    ``x.split(2)``, ``x[:4]`` and ``x[4:]``.

    Args:
        node: The tensor.
        found: What is known of the parts.
        scope: Sizes of the tensor and its parts.
    """
    sizes = scope.tensors(node)
    if len(sizes) != 1:
        return []
    lengths = [dim.range.single for dim in sizes[0].dims]
    parts = _parts(node, lengths, scope)
    for dim, known in grouped((dim, (stretch, found[part])) for dim, stretch, part in parts if part in found).items():
        length = lengths[dim]
        if length and len({index for stretch, _ in known for index in stretch} & set(range(length))) == length:
            return [use for _, use in known]
    return []


def _parts(node: Node, lengths: list[int | None], scope: Scope) -> Iterator[tuple[int, range, Node]]:
    """Yield each part with its dim and the indices it holds along it; only dims of a fixed size have parts."""
    for user in node.users:
        op = operator_of(user)
        if op is None or not user.args or user.args[0] is not node:
            continue
        name = short_name(op)
        if name == "unbind":
            dim = _dim(user, 1, lengths)
            if dim is not None:
                yield from ((dim, range(index, index + 1), element) for index, element in _elements(user))
        elif name in _SPLITS:
            yield from _stretches(user, _dim(user, 2, lengths), scope)
        elif name in ("select", "slice"):
            dim = _dim(user, 1, lengths)
            length = lengths[dim] if dim is not None else None
            if dim is None or length is None:
                continue
            stretch = _selected(user, length) if name == "select" else _sliced(user, length)
            if stretch is not None:
                yield dim, stretch, user


def _dim(user: Node, position: int, lengths: list[int | None]) -> int | None:
    dim = user.args[position] if position < len(user.args) else user.kwargs.get("dim", 0)
    if not isinstance(dim, int) or not -len(lengths) <= dim < len(lengths):
        return None
    return dim % len(lengths)


def _elements(user: Node) -> list[tuple[int, Node]]:
    return [
        (element.args[1], element)
        for element in user.users
        if len(element.args) == 2 and isinstance(element.args[1], int) and operator_of(element) is None
    ]


def _stretches(user: Node, dim: int | None, scope: Scope) -> Iterator[tuple[int, range, Node]]:
    pieces = scope.tensors(user)
    if dim is None:
        return
    starts, start = [], 0
    for piece in pieces:
        length = piece.dims[dim].range.single
        if length is None:
            return
        starts.append(range(start, start + length))
        start += length
    yield from ((dim, starts[index], element) for index, element in _elements(user) if 0 <= index < len(starts))


def _selected(user: Node, length: int) -> range | None:
    index = user.args[2] if len(user.args) > 2 else user.kwargs.get("index")
    if not isinstance(index, int) or not -length <= index < length:
        return None
    return range(index % length, index % length + 1)


def _sliced(user: Node, length: int) -> range | None:
    bounds = [user.args[at] if at < len(user.args) else None for at in (2, 3, 4)]
    if user.kwargs or not all(bound is None or isinstance(bound, int) for bound in bounds):
        return None
    start, end, step = (bound if isinstance(bound, int) else None for bound in bounds)
    return range(length)[slice(start, end, step)]
