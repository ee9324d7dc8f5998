"""What a node's ``meta["val"]`` says: tensors with symbolic dims and plain numbers, read without adding guards.

Nothing here compares a ``SymInt`` or asks for its truth: that would record a guard in the program's ShapeEnv.  Beside
it stands how the elements of a tensor lie in memory.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, TypeAlias, Union

import torch
from torch.fx import Node

from trtdiag.graph.pytree import leaves_of
from trtdiag.symbolic import Condition, Expr, ExpressionError, Num, free_symbols, from_sympy, is_condition


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A tensor: dtype, symbolic dims, bytes of one element."""

    dtype: torch.dtype
    dims: tuple[Expr, ...]
    element_bytes: int


@dataclass(frozen=True, slots=True)
class NumberValue:
    """A number: ``int``, ``float`` or ``bool``, and its expression (a condition for ``bool``), where known."""

    kind: str
    expr: Expr | Condition | None


@dataclass(frozen=True, slots=True)
class OtherValue:
    """Neither tensor nor number: ``None``, a script object, text; ``type`` names its class."""

    type: str


Value: TypeAlias = Union[TensorValue, NumberValue, OtherValue]


@dataclass(frozen=True, slots=True)
class NodeValues:
    """What a node yields.

    Attributes:
        values: Its values in order.
        symbols: Every symbol in them.
        is_list: Whether they come as a list or tuple.
        tensor: The one tensor that it yields, as most nodes do; ``None`` where it yields anything else.
    """

    values: tuple[Value, ...]
    symbols: frozenset[str]
    is_list: bool
    tensor: TensorValue | None


_CONTAINERS = (list, tuple)


class NodeReader:
    """Reads the values of each node once: for a graph whose nodes and metadata change no more.

    torch makes the shape of a tensor without content anew each time that it is asked, which costs more than all else.
    Equal sizes become one expression object.

    Cost: linear in nodes; each distinct size is translated once.
    """

    def __init__(self) -> None:
        self._exprs: dict[Any, Expr | Condition | None] = {}
        self._ints: dict[int, Num] = {}
        self._shapes: dict[tuple[Expr, ...], tuple[Expr, ...]] = {}
        self._nodes: dict[Node, NodeValues] = {}
        self._row_major: dict[Node, bool] = {}

    def read(self, node: Node) -> tuple[Value, ...]:
        """Return every value that a node yields, nested containers flattened; empty where it has none."""
        return self.node(node).values

    def node(self, node: Node) -> NodeValues:
        """Return what a node yields."""
        known = self._nodes.get(node)
        if known is None:
            values = tuple(self._read(leaf) for leaf in leaves(node.meta.get("val")))
            symbols = frozenset().union(*map(_symbols, values))
            is_list = isinstance(node.meta.get("val"), _CONTAINERS)
            one = values[0] if len(values) == 1 and not is_list else None
            tensor = one if isinstance(one, TensorValue) else None
            known = self._nodes[node] = NodeValues(values, symbols, is_list, tensor)
        return known

    def row_major(self, node: Node) -> bool:
        """Return whether a node yields one tensor that lies in memory in the order of its dims (``is_row_major``)."""
        known = self._row_major.get(node)
        if known is None:
            value = node.meta.get("val")
            known = self._row_major[node] = isinstance(value, torch.Tensor) and is_row_major(value)
        return known

    def size(self, value: int | torch.SymInt) -> Expr | None:
        """Return the expression of one size; ``None`` for a size that no expression describes (a nested tensor's)."""
        if isinstance(value, torch.SymInt):
            expr = self._symbolic(value)
            return None if expr is None or is_condition(expr) else expr  # type: ignore[return-value]
        known = self._ints.get(value)
        if known is None:
            known = self._ints[value] = Num(value)
        return known

    def _read(self, value: object) -> Value:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, bool):
            return NumberValue("bool", None)
        if isinstance(value, (int, torch.SymInt)):
            return NumberValue("int", self.size(value))
        if isinstance(value, float):
            return NumberValue("float", None)
        if isinstance(value, torch.SymBool):
            return NumberValue("bool", self._symbolic(value))
        if isinstance(value, torch.SymFloat):
            return NumberValue("float", self._symbolic(value))
        return OtherValue("None" if value is None else type(value).__name__)

    def _tensor(self, tensor: torch.Tensor) -> Value:
        dims = [self.size(size) for size in tensor.shape]
        known = tuple(dim for dim in dims if dim is not None)
        if len(known) != len(dims):
            return OtherValue(type(tensor).__name__)
        known = self._shapes.setdefault(known, known)
        return TensorValue(tensor.dtype, known, tensor.dtype.itemsize)

    def _symbolic(self, value: torch.SymInt | torch.SymBool | torch.SymFloat) -> Expr | Condition | None:
        raw = getattr(value.node, "_expr", None)
        if raw is None:
            constant = getattr(value.node, "constant", None)
            return self.size(constant()) if callable(constant) and isinstance(value, torch.SymInt) else None
        if raw not in self._exprs:
            # `.expr` applies the ShapeEnv's replacements (s1 := s0); the raw expression is only the key.
            self._exprs[raw] = _translate(value.node.expr)
        return self._exprs[raw]


def _symbols(value: Value) -> frozenset[str]:
    if isinstance(value, TensorValue):
        return frozenset().union(*map(free_symbols, value.dims))
    if isinstance(value, NumberValue) and value.expr is not None:
        return free_symbols(value.expr)
    return frozenset()


def _translate(expr: Any) -> Expr | Condition | None:
    try:
        return from_sympy(expr)
    except ExpressionError:
        # A function that the expression tree has no word for (sin, a float power): the value stays opaque.
        return None


def leaves(value: object) -> list[object]:
    """Return the values inside nested lists, tuples and dicts, in order; ``None`` alone gives nothing.

    ``None`` inside a container keeps its place: outputs are addressed by index.
    """
    if value is None:
        return []
    return leaves_of(list(value) if isinstance(value, torch.Size) else value)


def is_row_major(tensor: torch.Tensor) -> bool:
    """Whether a tensor lies in memory in the order of its dims, without gaps.

    Strides and sizes are compared as expressions, never as numbers; False also where that cannot decide.
    """
    if tensor.layout != torch.strided:
        return False
    expected: Any = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        size_expr, stride_expr = _raw(size), _raw(stride)
        if size_expr is None or stride_expr is None:
            return False
        if stride_expr != expected and size_expr != 1:
            return False
        expected = expected * size_expr
    return True


def _raw(value: int | torch.SymInt) -> Any:
    """Return the sympy expression behind a size, or the int itself; comparing those adds no guard."""
    return getattr(value.node, "_expr", None) if isinstance(value, torch.SymInt) else value


def memory_state(tensor: torch.Tensor) -> tuple[Hashable, ...] | None:
    """What two tensors with the same elements in the same memory share, as long as nobody writes there.

    ``None`` where torch does not count the writes to it (inference tensors), or where it has no memory of its own.
    While one of them lives, no other tensor has an equal state.  A write through ``.data`` is not counted.
    """
    if tensor.is_inference() or tensor.layout is not torch.strided or tensor.device.type == "meta":
        return None
    place = (tensor.device, tensor.untyped_storage().data_ptr(), tensor.storage_offset())
    turned = (tensor.is_conj(), tensor.is_neg())
    version = tensor._version  # noqa: SLF001 - torch has no public count of writes
    return (*place, tensor.dtype, tuple(tensor.shape), tensor.stride(), *turned, version)
