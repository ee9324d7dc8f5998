"""Reduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce as fold

import numpy as np
import torch

from trtdiag.network.dtype import FLOATS, NUMBERS
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Layer, require, require_axes, require_dtype
from trtdiag.network.tensor import Tensor, with_array
from trtdiag.symbolic import ONE, add, maximum, minimum, mul


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
