"""What ``x[i, :, j]`` selects: indexed dims, broadcast indices, and where their dims stand in the result."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.indices import common_shape, counted_from_the_front, inverse
from trtdiag.convert.layer_writers.nonzero import true_places
from trtdiag.convert.refusal import refuse
from trtdiag.convert.writer import Writer
from trtdiag.network import DType, Value
from trtdiag.shapes.op_call import Shape
from trtdiag.symbolic import Expr, to_text


@dataclass(frozen=True)
class Selection:
    """Indices into some dims of a tensor.

    Attributes:
        axes: The indexed dims, in order.
        indices: One for each of them, nowhere negative.
        shape: Of all indices together.
        rank: The number of dims of the tensor.
        together: The indices side by side in a last dim, where they are at hand like that.
    """

    axes: tuple[int, ...]
    indices: tuple[Value, ...]
    shape: Shape
    rank: int
    together: Value | None = None

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
        if self.together is not None:
            return self.together
        columns = [write.broadcast_to(index, self.shape) for index in self.indices]
        return write.concat([write.unsqueeze(column, [column.rank]) for column in columns], len(self.shape))

    def linear(self, write: Writer, x: Value) -> Value:
        """One index into the indexed dims laid out as one."""
        sizes = (x.shape[axis] for axis in self.axes)
        result = write.row_major(zip(self.indices, sizes, strict=True))
        return write.broadcast_to(result, self.shape)

    def at_front(self, write: Writer, values: Value) -> Value:
        """``values`` that have the result's shape with the indices' dims first."""
        return write.permute(values, inverse(self.result_order))


def selection(call: Call, x: Value, result: Shape | None = None) -> Selection:
    """The selection that a list of indices makes.

    Args:
        call: The op.
        x: What is indexed.
        result: The shape of ``x[...]``, which says how many elements a mask chooses; without it a mask is refused.
    """
    write = call.write
    listed = _by_axis(call)
    if not listed:
        raise refuse("argument-kind", "it has no index")
    axes = tuple(axis for first, index, _ in listed for axis in range(first, first + _covered(index)))
    own = max(1 if index.dtype is DType.BOOL else index.rank for _, index, _ in listed)
    found: list[Value] = []
    places: Value | None = None
    for axis, index, content in listed:
        if index.dtype is not DType.BOOL:
            found.append(counted_from_the_front(write, index, x.shape[axis], content))
            continue
        if result is None:
            raise refuse(
                "data-dependent-shape",
                "it indexes with a mask: how many elements that gives is known only when it runs",
                "use torch.where with the mask, which keeps the shape",
            )
        _require_same(call, index, x, axis)
        if len(result) != own + x.rank - len(axes):  # torch 2.13: of a mask beside an index without dims
            raise refuse("output-unknown", f"torch says that it gives {len(result)} dims", "give every index a dim")
        first = axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0
        count = result[first + own - 1]
        places = true_places(write, index, count)
        found += [write.reshape(write.part(places, 0, row, 1), [count]) for row in range(index.rank)]
    dtype = DType.INT64 if any(index.dtype is DType.INT64 for index in found) else DType.INT32
    indices = tuple(write.cast(index, dtype) for index in found)
    shape = common_shape(write, [index.shape for index in indices])
    alone = places if len(listed) == 1 else None
    return Selection(axes, indices, shape, x.rank, alone if alone is None else write.permute(alone, [1, 0]))


def _by_axis(call: Call) -> list[tuple[int, Value, torch.Tensor | None]]:
    """Each index with the first dim that it stands for, and its content where the program brings it."""
    found: list[tuple[int, Value, torch.Tensor | None]] = []
    axis = 0
    for place, index in enumerate(call.tensors_or_none("indices")):
        if index is not None:
            found.append((axis, index, call.held.get(f"indices[{place}]")))
        axis += 1 if index is None else _covered(index)
    return found


def _covered(index: Value) -> int:
    """How many dims an index stands for."""
    return index.rank if index.dtype is DType.BOOL else 1


def _require_same(call: Call, mask: Value, x: Value, axis: int) -> None:
    if mask.rank == 0:
        raise refuse("no-dims", "it indexes with a mask without dims, and no layer gives places without indices")
    for size, own in zip(mask.shape, x.shape[axis:], strict=False):
        if not call.write.builder.facts.equal(size, own):
            told = f"{to_text(size)} and {to_text(own)}"
            raise refuse("size-not-proven", f"a mask and what it chooses from have {told} elements in one dim")
