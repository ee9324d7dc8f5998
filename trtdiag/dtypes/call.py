"""One call of an op, as the interval rules read it: arguments by schema name, spans, sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, TypeAlias, Union

import torch
from torch.fx import Node

from trtdiag.dtypes.value_span import INT64_MAX, Span, unknown
from trtdiag.graph.operators import OpOverload, named_arguments, short_name
from trtdiag.shapes.facts import ShapeFacts, Size, TensorSizes
from trtdiag.symbolic import Num, to_text

Result: TypeAlias = Union[Span, tuple[Span, ...]]


class MissingArgumentError(LookupError):
    """A rule asked for an argument that this overload does not have; the overload has no rule then."""


@dataclass
class Scope:
    """What one graph knows while it is interpreted: spans by node, and the program's sizes and names."""

    shapes: ShapeFacts
    names: Mapping[str, str]
    prefix: str
    spans: dict[Node, Result] = field(default_factory=dict)

    def span(self, node: Node) -> Span:
        """Return the span of a node's only value."""
        found = self.spans.get(node)
        if isinstance(found, Span):
            return found
        size = self.size(node)
        return unknown(dtype_of(node), f"{node.name} is not a single tensor") if size is None else size

    def size(self, node: Node) -> Span | None:
        """Return the span of a size; ``None`` of other nodes."""
        size = self.shapes.scalars.get(self.prefix + node.name)
        return None if size is None else _of_size(size, self.names)

    def span_of(self, value: object) -> Span:
        """Return the span of any argument value: a node, a number."""
        if isinstance(value, Node):
            return self.span(value)
        if isinstance(value, (bool, int, float)):
            number = int(value) if isinstance(value, bool) else value
            return Span(number, number, f"the number {value}", attained=True)
        return unknown(torch.float64, f"a {type(value).__name__}")

    def tensors(self, node: Node) -> Sequence[TensorSizes]:
        """Return the sizes of a node's tensors."""
        return self.shapes.tensors.get(self.prefix + node.name, ())

    def tensor(self, node: Node) -> TensorSizes | None:
        """Return the sizes of a node's first tensor."""
        return next(iter(self.tensors(node)), None)


@dataclass
class Call:
    """A call under interpretation; every accessor takes the argument's name in the op's schema."""

    node: Node
    target: OpOverload
    scope: Scope

    @cached_property
    def given(self) -> dict[str, Any]:
        """Every argument by name, as it stands in the graph, or its default."""
        return named_arguments(self.node, self.target)

    @property
    def op(self) -> str:
        """The op's short name: ``add`` for ``aten.add_.Tensor``."""
        return short_name(self.target)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the first tensor that the call returns."""
        return dtype_of(self.node)

    def has(self, name: str) -> bool:
        """Whether the schema has such an argument."""
        return name in self.given

    def arg(self, name: str) -> object:
        """Return the argument as it stands in the graph, or its default.

        Raises:
            MissingArgumentError: The overload has no argument of this name.
        """
        if name not in self.given:
            raise MissingArgumentError(name)
        return self.given[name]

    def first(self) -> object:
        """Return the first argument as it stands in the graph, however the schema names it."""
        return next(iter(self.given.values()))

    def span(self, name: str) -> Span:
        """Return the span of a tensor or number argument."""
        return self.span_of(self.arg(name))

    def spans(self, name: str) -> list[Span]:
        """Return the spans of a list argument."""
        value = self.arg(name)
        return [self.span_of(item) for item in value] if isinstance(value, Sequence) else []

    def span_of(self, value: object) -> Span:
        """Return the span of any argument value: a node, a number."""
        return self.scope.span_of(value)

    def size(self) -> Span | None:
        """Return the span of the size that the call gives; ``None`` of other calls."""
        return self.scope.size(self.node)

    def text(self, value: object) -> str:
        """Return an argument value as the user would write it."""
        if isinstance(value, Node):
            size = self.scope.shapes.scalars.get(self.scope.prefix + value.name)
            return value.name if size is None else to_text(size.expr, self.scope.names)
        return str(value)

    def sizes(self, name: str) -> TensorSizes | None:
        """Return the sizes of a tensor argument."""
        value = self.arg(name)
        return self.scope.tensor(value) if isinstance(value, Node) else None

    def length(self, name: str, dims: object = None) -> tuple[int, int]:
        """Return least and greatest count of elements along ``dims`` of a tensor argument (``None`` or none: all)."""
        found = self.sizes(name)
        if found is None:
            return 0, INT64_MAX
        wanted: Iterable[int] = (dims,) if isinstance(dims, int) else dims if isinstance(dims, (list, tuple)) else ()
        ranges = [size.range for size in ([found.dims[dim] for dim in wanted if found.dims] or found.dims)]
        high = prod(INT64_MAX if range_.max is None else range_.max for range_ in ranges)
        return prod(max(0, range_.min or 0) for range_ in ranges), min(high, INT64_MAX)


def dtype_of(node: Node) -> torch.dtype:
    """Return the dtype of a node's first tensor; int64 for a SymInt, float64 for any other number."""
    value = node.meta.get("val")
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    if isinstance(value, torch.Tensor):
        return value.dtype
    return torch.int64 if isinstance(value, (int, torch.SymInt)) else torch.float64


def _of_size(size: Size, names: Mapping[str, str]) -> Span:
    low = -INT64_MAX if size.range.min is None else size.range.min
    high = INT64_MAX if size.range.max is None else size.range.max
    text = to_text(size.expr, names)
    if isinstance(size.expr, Num):
        return Span(low, high, f"the number {text}", attained=True)
    why = size.range.of(text)
    return Span(low, high, why, root="" if size.range.bounded else why)


Rule: TypeAlias = Callable[[Call], Result]
