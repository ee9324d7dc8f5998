"""One call of an op in a graph, read as shapes and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch.fx import Node

from trtdiag.graph.operators import HigherOrderOperator, OpOverload, arguments_of, schema_name
from trtdiag.graph.values import NodeReader, TensorValue
from trtdiag.symbolic import Expr, Num

Shape = tuple[Expr, ...]


class UnreadableError(Exception):
    """An argument is not what a rule about shapes can read: a tensor without a shape, a size that data decides."""


Callee = OpOverload | HigherOrderOperator

_HIGHER_ORDER = {"flex_attention": ("query", "key", "value")}
"""Operators that run nested graphs have no schema: the names of their first arguments."""


def callee(node: Node) -> Callee | None:
    """The operator that a node calls, ``None`` where it calls none."""
    return node.target if isinstance(node.target, (OpOverload, HigherOrderOperator)) else None


@lru_cache(maxsize=4096)
def bare_name(op: Callee) -> str:
    """An operator without namespace and overload, in-place mark kept: ``add_``."""
    return str(op) if isinstance(op, HigherOrderOperator) else schema_name(op).partition("::")[2]


def _positions(op: Callee) -> dict[str, tuple[int, object]]:
    """Where each argument stands, and its default."""
    if isinstance(op, HigherOrderOperator):
        names: tuple[str, ...] = _HIGHER_ORDER.get(str(op), ())
        return {name: (place, None) for place, name in enumerate(names)}
    return {name: (argument.position, argument.default) for name, argument in arguments_of(op).items()}


class OpCall:
    """The arguments of a call by the names of its schema.

    Args:
        node: A call of ``op``.
        op: Its operator.
        reader: Reads the values of nodes.
    """

    def __init__(self, node: Node, op: Callee, reader: NodeReader) -> None:
        self.node = node
        self.op = op
        self.reader = reader

    def given(self, name: str) -> object:
        """What the call has at an argument: its default where nothing was given; ``None`` where it has no such one."""
        position, default = _positions(self.op).get(name, (len(self.node.args), None))
        return self.node.args[position] if position < len(self.node.args) else self.node.kwargs.get(name, default)

    def shape(self, name: str) -> Shape:
        """The shape of a tensor argument.

        Raises:
            UnreadableError: It is none.
        """
        return self._shape_of(self.given(name))

    def optional_shape(self, name: str) -> Shape | None:
        """The shape of a tensor argument, ``None`` where the call has none."""
        value = self.given(name)
        return None if value is None else self._shape_of(value)

    def shapes(self, name: str) -> list[Shape]:
        """The shapes of a list of tensors."""
        return [self._shape_of(item) for item in self._items(name)]

    def optional_tensors(self, name: str) -> list[TensorValue | None]:
        """The values of a list in which tensors may be missing."""
        return [None if item is None else self._tensor(item) for item in self._items(name)]

    def tensor_shapes(self) -> list[Shape]:
        """The shapes of all arguments that are one tensor, in order."""
        found = []
        for name in _positions(self.op):
            value = self.given(name)
            if isinstance(value, Node) and (read := self.reader.node(value).tensor) is not None:
                found.append(read.dims)
        return found

    def sizes(self, name: str) -> list[Expr]:
        """A list of sizes, numbers or symbolic."""
        return [self._size(item) for item in self._items(name)]

    def size(self, name: str) -> Expr:
        """One size."""
        return self._size(self.given(name))

    def number(self, name: str, default: int = 0) -> int:
        """A number that is known."""
        value = self.given(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise UnreadableError(name)
        return value

    def flag(self, name: str) -> bool:
        """A truth value; one that the op does not have is False."""
        return self.given(name) is True

    def numbers(self, name: str, count: int) -> list[int]:
        """``count`` numbers that are known; one stands for all, none for zeros."""
        value = self.given(name)
        items: Sequence[object] = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
        if not all(isinstance(item, int) for item in items):
            raise UnreadableError(name)
        known = [item for item in items if isinstance(item, int)]
        return known * count if len(known) == 1 else known or [0] * count

    def axis(self, name: str, rank: int) -> int:
        """A dim counted from the front."""
        return self.number(name) % max(rank, 1)

    @property
    def in_place(self) -> bool:
        """Whether the op writes its result into its first argument."""
        name = bare_name(self.op)
        return name.endswith("_") and not name.endswith("__")

    def _items(self, name: str) -> Sequence[object]:
        value = self.given(name)
        if not isinstance(value, (list, tuple)):
            raise UnreadableError(name)
        return value

    def _shape_of(self, value: object) -> Shape:
        return self._tensor(value).dims

    def _tensor(self, value: object) -> TensorValue:
        read = self.reader.node(value).tensor if isinstance(value, Node) else None
        if read is None:
            raise UnreadableError(str(value))
        return read

    def _size(self, value: object) -> Expr:
        given = value.meta.get("val") if isinstance(value, Node) else value
        if isinstance(given, bool) or not isinstance(given, (int, torch.SymInt)):
            raise UnreadableError(str(value))
        size = Num(given) if isinstance(given, int) else self.reader.size(given)
        if size is None:
            raise UnreadableError(str(value))
        return size
