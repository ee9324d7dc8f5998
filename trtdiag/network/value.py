"""A tensor of the network that is being written, and arithmetic with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from trtdiag.network.dtype import DType
from trtdiag.network.layer import Layer
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.unary import UnaryOperation
from trtdiag.network.tensor import Tensor
from trtdiag.shapes.op_call import Shape

if TYPE_CHECKING:
    from trtdiag.network.builder import NetworkBuilder


class Arithmetic(Protocol):
    """Writes the layers that operators between values stand for."""

    def elementwise(self, op: Op, left: Value, right: Value) -> Value:
        """A layer of two values."""
        ...

    def unary(self, op: UnaryOperation, x: Value) -> Value:
        """A layer of one value."""
        ...

    def scalar(self, number: float | bool, like: Value) -> Value:
        """A number in the dtype and rank of a value."""
        ...


def _two(op: Op, *, turned: bool = False) -> Callable[[Value, Value | float], Value]:
    """The operator that writes ``op`` of a value and another one, or a number; the other way round with ``turned``."""

    def written(self: Value, other: Value | float) -> Value:
        write = self.builder.arithmetic
        second = other if isinstance(other, Value) else write.scalar(other, self)
        return write.elementwise(op, second, self) if turned else write.elementwise(op, self, second)

    return written


def _one(op: UnaryOperation) -> Callable[[Value], Value]:
    return lambda self: self.builder.arithmetic.unary(op, self)


@dataclass(frozen=True)
class Value:
    """A tensor of the network that a builder is writing; operators between values write layers into that network.

    A number beside a value has its dtype.  ``/`` of integers rounds towards zero, ``//`` down, as the layers do.
    """

    builder: NetworkBuilder
    id: int
    tensor: Tensor

    @property
    def dtype(self) -> DType:
        """Its dtype."""
        return self.tensor.dtype

    @property
    def shape(self) -> Shape:
        """Its symbolic shape."""
        return self.tensor.shape

    @property
    def rank(self) -> int:
        """Its number of dims."""
        return self.tensor.rank

    @property
    def made_by(self) -> Layer | None:
        """The layer that gives it; ``None`` for an input of the network."""
        placed = self.builder.producer(self.id)
        return None if placed is None else placed.layer

    @property
    def sources(self) -> tuple[Value, ...]:
        """What that layer reads."""
        placed = self.builder.producer(self.id)
        return () if placed is None else tuple(map(self.builder.value, placed.inputs))

    __add__ = _two(Op.SUM)
    __sub__ = _two(Op.SUB)
    __rsub__ = _two(Op.SUB, turned=True)
    __mul__ = _two(Op.PROD)
    __truediv__ = _two(Op.DIV)
    __floordiv__ = _two(Op.FLOOR_DIV)
    __pow__ = _two(Op.POW)
    __rpow__ = _two(Op.POW, turned=True)
    __and__ = _two(Op.AND)
    __or__ = _two(Op.OR)
    __xor__ = _two(Op.XOR)
    __lt__ = _two(Op.LESS)
    __gt__ = _two(Op.GREATER)
    eq = _two(Op.EQUAL)
    maximum = _two(Op.MAX)
    minimum = _two(Op.MIN)
    __invert__ = _one(UnaryOperation.NOT)
    __neg__ = _one(UnaryOperation.NEG)
    __abs__ = _one(UnaryOperation.ABS)
    sqrt = _one(UnaryOperation.SQRT)
    exp = _one(UnaryOperation.EXP)
    log = _one(UnaryOperation.LOG)
    floor = _one(UnaryOperation.FLOOR)
    ceil = _one(UnaryOperation.CEIL)
    round = _one(UnaryOperation.ROUND)
    reciprocal = _one(UnaryOperation.RECIP)
