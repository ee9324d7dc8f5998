"""Reduce, Cumulative and TopK: elements brought together, or put in order, along dims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce as fold

import numpy as np
import torch

from trtdiag.network.dtype import FLOATS, INDICES, NUMBERS, DType
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Given, Layer, given_scalar, require, require_axes, require_dtype
from trtdiag.network.tensor import Tensor, with_array
from trtdiag.symbolic import ONE, add, as_expr, maximum, minimum, mul, sub, to_text


class ReduceOperation(Enum):
    """TensorRT's reductions."""

    SUM = "sum"
    PROD = "prod"
    MAX = "max"
    MIN = "min"
    AVG = "avg"


_SIZES = {
    ReduceOperation.SUM: add,
    ReduceOperation.PROD: mul,
    ReduceOperation.MAX: maximum,
    ReduceOperation.MIN: minimum,
}
_FUNCTIONS: dict[ReduceOperation, Callable[[torch.Tensor, list[int], bool], torch.Tensor]] = {
    ReduceOperation.SUM: lambda x, axes, keep_dims: x.sum(axes, keep_dims, dtype=x.dtype),
    ReduceOperation.AVG: torch.mean,
    ReduceOperation.MAX: torch.amax,
    ReduceOperation.MIN: torch.amin,
}


@dataclass(frozen=True)
class Reduce(Layer):
    """``op`` over the axes, which stay as dims of size 1 with ``keep_dims``; AVG takes floats only."""

    op: ReduceOperation
    axes: tuple[int, ...]
    keep_dims: bool = False

    def __post_init__(self) -> None:
        require(len(self.axes) > 0, "there is no axis to reduce")

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The shape without the axes, or with 1 in their place."""
        x = inputs[0]
        require_dtype(x, FLOATS if self.op is ReduceOperation.AVG else NUMBERS)
        require_axes(self.axes, x.rank)
        array = x.array()
        if array is not None and array.size and self.op in _SIZES:
            return (with_array(x.dtype, self._sizes(array)),)
        kept = [
            ONE if axis in self.axes else size
            for axis, size in enumerate(x.shape)
            if self.keep_dims or axis not in self.axes
        ]
        return (Tensor(x.dtype, tuple(kept)),)

    def _sizes(self, array: np.ndarray) -> np.ndarray:
        """The same of sizes."""
        function = _SIZES[self.op]
        kept = [axis for axis in range(array.ndim) if axis not in self.axes]
        rows = array.transpose(*kept, *self.axes).reshape(*(array.shape[axis] for axis in kept), -1)
        result = np.empty(rows.shape[:-1], dtype=object)
        for index in np.ndindex(*rows.shape[:-1]):
            result[index] = fold(function, rows[index])
        return np.expand_dims(result, tuple(sorted(self.axes))) if self.keep_dims else result

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """16 bit sums and products in float32, rounded once."""
        x = inputs[0].float() if inputs[0].is_floating_point() else inputs[0]
        axes = sorted(self.axes)
        if self.op in _FUNCTIONS:
            return (_FUNCTIONS[self.op](x, axes, self.keep_dims).to(inputs[0].dtype),)
        for axis in reversed(axes):  # PyTorch takes products over one dim
            x = x.prod(axis, self.keep_dims, dtype=x.dtype)
        return (x.to(inputs[0].dtype),)


@dataclass(frozen=True)
class Cumulative(Layer, takes=NUMBERS):
    """The sum of all elements up to each one along ``axis``: TensorRT's only CumulativeOperation.

    Attributes:
        axis: Along which to sum.
        exclusive: Leave the element itself out, so that the first result is 0.
        reverse: Sum from the end.
    """

    axis: int
    exclusive: bool = False
    reverse: bool = False

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The type of the input."""
        require_axes((self.axis,), inputs[0].rank)
        return (Tensor(inputs[0].dtype, inputs[0].shape),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The exclusive sum is the inclusive one of the input moved by one element, not a difference that rounds."""
        x = inputs[0].flip(self.axis) if self.reverse else inputs[0]
        if self.exclusive and x.shape[self.axis]:
            kept = x.narrow(self.axis, 0, x.shape[self.axis] - 1)
            x = torch.cat([torch.zeros_like(x.narrow(self.axis, 0, 1)), kept], self.axis)
        y = x.cumsum(self.axis, dtype=x.dtype)
        return (y.flip(self.axis) if self.reverse else y,)


class TopKOperation(Enum):
    """Which end of the order."""

    MAX = "max"
    MIN = "min"


@dataclass(frozen=True)
class TopK(Layer, inputs=(1, 2), takes=NUMBERS):
    """The ``k`` greatest or least elements along an axis, best first, and their indices.

    Of equal elements the one with the lower index comes first.  TensorRT does not promise that.

    Attributes:
        op: Greatest or least.
        k: How many, or a further scalar input.
        axis: Along which; TensorRT takes one.
        indices: int32 (TensorRT 8.6 has no other), or int64.
    """

    op: TopKOperation
    k: int | Given
    axis: int
    indices: DType = DType.INT32

    def __post_init__(self) -> None:
        require(self.indices in INDICES, f"the indices cannot be {self.indices.value}")
        require(isinstance(self.k, Given) or self.k >= 0, f"k is {self.k}")

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The input's shape with k along the axis, for the values and for the indices."""
        x = inputs[0]
        require_axes((self.axis,), x.rank)
        require(len(inputs) == (2 if isinstance(self.k, Given) else 1), f"there are {len(inputs)} inputs")
        k = given_scalar(inputs[1], "k") if isinstance(self.k, Given) else as_expr(self.k)
        size = x.shape[self.axis]
        require(not facts.never_at_least(sub(size, k), 0), f"k is {to_text(k)} of {to_text(size)} elements")
        shape = (*x.shape[: self.axis], k, *x.shape[self.axis + 1 :])
        return Tensor(x.dtype, shape), Tensor(self.indices, shape)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """A stable sort, cut off."""
        k = int(inputs[1]) if isinstance(self.k, Given) else self.k
        values, indices = inputs[0].sort(dim=self.axis, descending=self.op is TopKOperation.MAX, stable=True)
        return values.narrow(self.axis, 0, k), indices.narrow(self.axis, 0, k).to(self.indices.torch)
