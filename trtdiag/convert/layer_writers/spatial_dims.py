"""What convolutions, poolings and resizings share: a batch dim and two or three dims of space, as TensorRT has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trtdiag.convert.writer import Writer
from trtdiag.network.layers.slice import SampleMode
from trtdiag.network.value import Value
from trtdiag.symbolic import Expr, Num, add, mul, sub


@dataclass(frozen=True)
class Spatial:
    """``x`` as (batch, channels, space...) with at least two dims of space.

    Attributes:
        write: Writes layers.
        x: The tensor with the dims below added.
        added: Dims of size 1 that the op's own tensor has not: the batch, and the first of space for one dim.
        dims: Dims of space, at least 2.
    """

    write: Writer
    x: Value
    added: tuple[int, ...]
    dims: int

    def padded(self, numbers: Sequence[int], neutral: int) -> tuple[int, ...]:
        """An attribute of the op with ``neutral`` for the dim of space that was added."""
        return (neutral,) * (self.dims - len(numbers)) + tuple(numbers)

    def leave(self, y: Value) -> Value:
        """A result without the dims that were added."""
        return self.write.squeeze(y, self.added) if self.added else y


def spatial(write: Writer, x: Value, dims: int) -> Spatial:
    """A tensor of ``dims`` dims of space, channels, and batch or not."""
    added = ((0,) if x.rank == dims + 1 else ()) + ((2,) if dims == 1 else ())
    return Spatial(write, write.unsqueeze(x, added) if added else x, added, max(2, dims))


def reaching(write: Writer, x: Value, before: Sequence[int], sizes: Sequence[Expr], fill: float | bool | None) -> Value:
    """The last dims of ``x`` cut or filled up so that they begin ``before`` the first element and have ``sizes``.

    ``fill`` is what lies outside; 0 for ``None``.
    """
    outer, equal = x.rank - len(sizes), write.builder.facts.equal
    if not any(before) and all(equal(*pair) for pair in zip(sizes, x.shape[outer:], strict=True)):
        return x
    start = [0] * outer + [-number for number in before]
    shape = [*x.shape[:outer], *sizes]
    value = None if fill is None else write.number(fill, x.dtype)
    return write.slice(x, start, shape, [1] * x.rank, SampleMode.FILL, value)


def reach(count: Expr, stride: int, extent: int) -> Expr:
    """How many elements ``count`` windows of ``extent`` elements reach over."""
    return add(mul(stride, sub(count, Num(1))), extent)
