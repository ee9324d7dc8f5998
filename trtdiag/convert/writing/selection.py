"""What ``x[i, :, j]`` selects: indexed dims, broadcast indices, and where their dims stand in the result."""

from __future__ import annotations

from dataclasses import dataclass

from trtdiag.convert.call import Call
from trtdiag.convert.refused import refuse
from trtdiag.convert.writer import Writer
from trtdiag.convert.writing.positions import common_shape, counted_from_the_front, inverse
from trtdiag.network.builder import Value
from trtdiag.network.dtype import DType
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.tensor import Shape
from trtdiag.symbolic import Expr


@dataclass(frozen=True)
class Selection:
    """Indices into some dims of a tensor.

    Attributes:
        axes: The indexed dims, in order.
        indices: One for each of them, nowhere negative.
        shape: Of all indices together.
        rank: The number of dims of the tensor.
    """

    axes: tuple[int, ...]
    indices: tuple[Value, ...]
    shape: Shape
    rank: int

    @property
    def front(self) -> list[int]:
        """The order of the tensor's dims with the indexed ones first."""
        return [*self.axes, *(axis for axis in range(self.rank) if axis not in self.axes)]

    @property
    def place(self) -> int:
        """Where the dims of the indices stand in the result: at the first indexed dim if these are neighbours."""
        first, last = self.axes[0], self.axes[-1]
        return first if last - first == len(self.axes) - 1 else 0

    @property
    def result_order(self) -> list[int]:
        """The order that puts the result with the indices' dims first as PyTorch has it."""
        own = len(self.shape)
        others = list(range(own, own + self.rank - len(self.axes)))
        return [*others[: self.place], *range(own), *others[self.place :]]

    def result_shape(self, x: Value) -> Shape:
        """The shape of ``x[...]``."""
        first: list[Expr] = [*self.shape, *(x.shape[axis] for axis in self.front[len(self.axes) :])]
        return tuple(first[axis] for axis in self.result_order)

    def positions(self, write: Writer) -> Value:
        """The indices side by side in a last dim."""
        columns = [write.broadcast_to(index, self.shape) for index in self.indices]
        return write.concat([write.unsqueeze(column, [column.rank]) for column in columns], len(self.shape))

    def linear(self, write: Writer, x: Value) -> Value:
        """One index into the indexed dims laid out as one."""
        result = self.indices[0]
        for axis, index in zip(self.axes[1:], self.indices[1:], strict=True):
            size = write.cast(write.sizes.element(x.shape[axis]), result.dtype)
            scaled = write.elementwise(Op.PROD, result, write.reshape(size, [1] * result.rank))
            result = write.elementwise(Op.SUM, scaled, index)
        return write.broadcast_to(result, self.shape)

    def at_front(self, write: Writer, values: Value) -> Value:
        """``values`` that have the result's shape with the indices' dims first."""
        return write.permute(values, inverse(self.result_order))


def selection(call: Call, x: Value, name: str = "indices") -> Selection:
    """The selection that a list of indices makes; a mask among them is refused."""
    write = call.write
    given = {axis: index for axis, index in enumerate(call.tensors_or_none(name)) if index is not None}
    if any(index.dtype is DType.BOOL for index in given.values()):
        raise refuse(
            "data-dependent-shape",
            "it indexes with a mask: how many elements that gives is known only when it runs",
            "use torch.where with the mask, which keeps the shape",
        )
    if not given:
        raise refuse("argument-kind", "it has no index")
    found = [
        counted_from_the_front(write, index, x.shape[axis], call.content(f"{name}[{axis}]"))
        for axis, index in given.items()
    ]
    dtype = DType.INT64 if any(index.dtype is DType.INT64 for index in found) else DType.INT32
    indices = tuple(write.cast(index, dtype) for index in found)
    return Selection(tuple(given), indices, common_shape(write, [index.shape for index in indices]), x.rank)
