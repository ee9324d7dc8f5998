"""Gather and OneHot: elements by index, in TensorRT's three modes, and indices as rows of zeros and a one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import torch

from trtdiag.network.dtype import ANY, COMPUTED, INDICES
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import (
    Layer,
    LayerError,
    given_scalar,
    refuse_negative,
    require,
    require_axes,
    require_dtype,
    require_equal,
)
from trtdiag.network.tensor import Tensor, with_array
from trtdiag.symbolic import Expr, Num


class GatherMode(Enum):
    """What one index stands for: a slice across ``axis``, an element, or, with all that its row says, a position."""

    DEFAULT = "default"
    ELEMENT = "element"
    ND = "nd"


@dataclass(frozen=True)
class Gather(Layer, inputs=2, takes=ANY):
    """Elements of the first input at the indices of the second.

    DEFAULT: the indices' dims take the place of ``axis``.  ELEMENT: ``out[i][j] = x[indices[i][j]][j]`` for axis 0,
    the output has the indices' shape.  ND: each row of the last dim is a position in the leading dims of x.
    The first ``elementwise_dims`` dims of both inputs are walked together (batch dims), in DEFAULT and ND.
    Indices are never negative, and lie inside x.
    """

    mode: GatherMode = GatherMode.DEFAULT
    axis: int = 0
    elementwise_dims: int = 0

    def __post_init__(self) -> None:
        require(self.elementwise_dims >= 0, f"elementwise_dims is {self.elementwise_dims}")
        require(self.mode is not GatherMode.ND or self.axis == 0, "ND has no axis")
        if self.mode is GatherMode.ELEMENT:
            require(self.elementwise_dims == 0, "ELEMENT has no elementwise dims")
        if self.mode is GatherMode.DEFAULT:
            require(self.axis >= self.elementwise_dims, "the axis is one of the elementwise dims")

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """See the modes."""
        x, indices = inputs
        require_dtype(indices, INDICES, "the indices")
        batch = self.elementwise_dims
        require(batch <= min(x.rank, indices.rank), "there are fewer dims than elementwise_dims")
        for axis in range(batch):
            require_equal(facts, x.shape[axis], indices.shape[axis], f"elementwise dim {axis}")
        if self.mode is GatherMode.ND:
            return (Tensor(x.dtype, self._nd_shape(x, indices)),)
        require_axes((self.axis,), x.rank)
        if self.mode is GatherMode.ELEMENT:
            require(x.rank == indices.rank, f"the ranks {x.rank} and {indices.rank} differ")
            return (Tensor(x.dtype, indices.shape),)
        _require_inside(indices, x.shape[self.axis])
        array, where = x.array(), indices.array()
        if array is not None and where is not None and batch == 0 and all(isinstance(i, Num) for i in where.flat):
            positions = np.array([index.value for index in where.flat], dtype=np.intp).reshape(where.shape)
            taken = np.take(array, positions.reshape(-1), self.axis)
            sizes = (*array.shape[: self.axis], *positions.shape, *array.shape[self.axis + 1 :])
            return (with_array(x.dtype, taken.reshape(sizes)),)
        shape = (*x.shape[: self.axis], *indices.shape[batch:], *x.shape[self.axis + 1 :])
        return (Tensor(x.dtype, shape),)

    def _nd_shape(self, x: Tensor, indices: Tensor) -> tuple[Expr, ...]:
        require(indices.rank > self.elementwise_dims, "the indices have no dim for positions")
        depth = indices.shape[-1]
        if not (isinstance(depth, Num) and isinstance(depth.value, int)):
            raise LayerError("the last dim of the indices is no number")
        dims = self.elementwise_dims + depth.value
        require(depth.value >= 1 and dims <= x.rank, f"positions of {depth.value} dims in an input of rank {x.rank}")
        return (*indices.shape[:-1], *x.shape[dims:])

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """By indexing; an index outside is an IndexError, a negative one too."""
        x, indices = inputs[0], inputs[1].long()
        refuse_negative(indices)
        batch = self.elementwise_dims
        if self.mode is GatherMode.ELEMENT:
            return (torch.gather(x, self.axis, indices),)
        along = [_counter(x.shape[axis], axis, indices.dim()) for axis in range(batch)]
        if self.mode is GatherMode.ND:
            rows = [row.squeeze(-1) for row in along]
            position = (*rows, *indices.unbind(-1))
            return (x[position],)
        moved = x.movedim(self.axis, batch)
        position = (*along, indices)
        taken = moved[position]  # batch dims, indices' dims, then what stood before and after the axis
        behind, between = indices.dim(), range(batch, self.axis)
        return (taken.movedim([behind + axis - batch for axis in between], list(between)).contiguous(),)


def _counter(size: int, axis: int, rank: int) -> torch.Tensor:
    """0, 1, ... along ``axis``, in a shape that broadcasts with indices of ``rank``."""
    return torch.arange(size).reshape([-1 if dim == axis else 1 for dim in range(rank)])


def _require_inside(indices: Tensor, size: Expr) -> None:
    for value in indices.values or ():
        if isinstance(value, Num):
            inside = value.value >= 0 and not (isinstance(size, Num) and value.value >= size.value)
            require(inside, f"the index {value.value} is outside")


@dataclass(frozen=True)
class OneHot(Layer, inputs=3):
    """The second of two values where a new dim's index equals the input, the first elsewhere.

    Inputs are the indices, the two values ``(off, on)`` and the depth, a scalar: the new dim's size.  ``axis`` is the
    new dim's place in the output.  An index outside 0..depth-1 is on nowhere.
    """

    axis: int

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The indices' shape with the depth at the axis, the dtype of the values."""
        indices, values, depth = inputs
        require_dtype(indices, INDICES, "the indices")
        require_dtype(values, COMPUTED, "the values")
        require(values.static_shape == (2,), f"the values are {values}; they must be two")
        require_axes((self.axis,), indices.rank + 1)
        size = given_scalar(depth, "the depth")
        shape = (*indices.shape[: self.axis], size, *indices.shape[self.axis :])
        return (Tensor(values.dtype, shape),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """By comparison with a counter."""
        indices, values, depth = inputs
        places = [-1 if axis == self.axis else 1 for axis in range(indices.dim() + 1)]
        on = indices.long().unsqueeze(self.axis) == torch.arange(int(depth)).reshape(places)
        return (torch.where(on, values[1], values[0]),)
