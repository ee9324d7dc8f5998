"""What converters write with: layers, and the few compositions of them that every family needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

import torch

from trtdiag.convert.infinities import chosen, compared
from trtdiag.convert.refusal import refuse
from trtdiag.convert.reshape_writer import ONE, ReshapeWriter, Size
from trtdiag.convert.shape_tensor_writer import Ask
from trtdiag.network import INPUT, DType, NetworkBuilder, Value
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.network.layers.constant import Fill
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation, Select
from trtdiag.network.layers.reduce import Reduce, ReduceOperation
from trtdiag.network.layers.unary import Unary, UnaryOperation
from trtdiag.symbolic import Expr, Num, as_expr, to_text
from trtdiag.targets.target import Target


class Writer(ReshapeWriter):
    """Writes layers into a network for one target; arithmetic of its values is written through it, too."""

    def __init__(self, builder: NetworkBuilder, target: Target, ask: Ask | None = None) -> None:
        super().__init__(builder, target, ask)
        builder.arithmetic = self

    # Numbers and sizes as tensors

    def scalar(self, number: float | bool, like: Value, rank: int | None = None) -> Value:
        """A number in the dtype of ``like`` with its rank, every dim 1, so that it broadcasts."""
        return self.number(number, like.dtype, like.rank if rank is None else rank)

    def number(self, number: float | bool, dtype: DType, rank: int = 0) -> Value:
        """A number as a tensor with ``rank`` dims of size 1."""
        finite = number == number and abs(number) != float("inf")
        if dtype.is_float:
            fits = not finite or abs(number) <= torch.finfo(dtype.torch).max
        else:
            fits = dtype is DType.BOOL or (finite and dtype.holds(int(number)))
        if fits:
            return self.constant(torch.full([1] * rank, number, dtype=dtype.torch))
        raise refuse("number-range", f"{number} does not fit into {dtype.value}")

    def filled(self, shape: Sequence[Size], number: float | bool, dtype: DType) -> Value:
        """A tensor that holds one number everywhere."""
        return self.broadcast_to(self.number(number, dtype, len(shape)), shape)

    def counting(self, length: Size, start: Value | Size = 0, step: Value | Size = 1) -> Value:
        """``start + step * i`` for i below ``length``, in ``index`` dtype."""
        size = as_expr(length)
        first, by = (_number(term) for term in (start, step))
        shape, sizes = self.attribute([size])
        if isinstance(first, int) and isinstance(by, int):
            if not (self.index.holds(first) and self.index.holds(by)):
                raise refuse("number-range", f"counting from {first} by {by} does not fit into {self.index.value}")
            return self.add(Fill(shape, self.index, first, (by,)), *sizes)
        begin = first if isinstance(first, Value) else self.sizes.scalar(as_expr(first))
        stride = by if isinstance(by, Value) else self.sizes.element(as_expr(by))
        return self.add(Fill(shape, self.index, INPUT, INPUT), *sizes, begin, stride)

    def size_like(self, size: Expr, x: Value) -> Value:
        """A size in the dtype of ``x`` with its rank, every dim 1, so that it broadcasts."""
        return self.reshape(self.cast(self.sizes.element(size), x.dtype), [1] * x.rank)

    def row_major(self, indices: Iterable[tuple[Value, Expr]]) -> Value:
        """One index into several dims laid out as one, from one into each, with the size of the dim."""
        pairs = iter(indices)
        result, _ = next(pairs)
        for index, size in pairs:
            result = result * self.size_like(size, result) + index
        return result

    def place(self, index: Size) -> Value:
        """An index without dims, which takes the dim away that it is gathered from."""
        expr = as_expr(index)
        return self.number(int(expr.value), self.index) if isinstance(expr, Num) else self.sizes.scalar(expr)

    # One tensor

    def unary(self, op: UnaryOperation, x: Value) -> Value:
        """A Unary layer."""
        return self.add(Unary(op), x)

    def activation(self, op: ActivationType, x: Value, alpha: float = 0.0, beta: float = 0.0) -> Value:
        """An Activation layer."""
        return self.add(Activation(op, alpha, beta), x)

    def reduce(self, op: ReduceOperation, x: Value, axes: Sequence[int], keep_dims: bool = False) -> Value:
        """A Reduce layer; ``x`` where there is no axis."""
        return self.add(Reduce(op, tuple(axes), keep_dims), x) if axes else x

    # Two and three tensors

    def fold(self, op: ElementWiseOperation, values: Iterable[Value]) -> Value:
        """The values brought together one after the other."""
        return reduce(lambda one, other: self.elementwise(op, one, other), values)

    def elementwise(self, op: ElementWiseOperation, left: Value, right: Value) -> Value:
        """An ElementWise layer, after the one of lower rank got leading dims of 1.

        Dims that are one dynamic size here and 1 there broadcast; a dynamic size that may be 1 does not.
        """
        a, b = self.aligned(left, right)
        told = None if self.target.infinities else compared(self, op, a, b)
        return told if told is not None else self.add(ElementWise(op), a, b)

    def select(self, condition: Value, then: Value | float, otherwise: Value | float) -> Value:
        """A Select layer, ranks aligned; a number is in dtype and rank of the other value."""
        if not isinstance(then, Value):
            assert isinstance(otherwise, Value)
            then = self.scalar(then, otherwise)
        otherwise = otherwise if isinstance(otherwise, Value) else self.scalar(otherwise, then)
        c, a, b = self.aligned(condition, then, otherwise)
        told = None if self.target.infinities else chosen(self, c, a, b)
        return told if told is not None else self.add(Select(), c, a, b)

    def aligned(self, *values: Value) -> tuple[Value, ...]:
        """The values with leading dims of 1 up to the highest rank among them.

        Raises:
            Refused: ``broadcast-not-proven`` where two sizes are not proven to be equal, and neither is 1.
        """
        rank = max(value.rank for value in values)
        same = tuple(self.with_rank(value, rank) for value in values)
        for axis in range(rank):
            size: Expr = ONE
            for value in same:
                joint = self.builder.facts.broadcast(size, value.shape[axis])
                if joint is None:
                    told = f"{to_text(size)} and {to_text(value.shape[axis])}"
                    raise refuse(
                        "broadcast-not-proven", f"dim {axis - rank} of its operands is {told}, not proven equal"
                    )
                size = joint
        return same


def _number(term: Value | Size) -> Value | Size:
    return int(term.value) if isinstance(term, Num) else term
