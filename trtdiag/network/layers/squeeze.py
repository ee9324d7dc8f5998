"""Squeeze, Unsqueeze and Shape: dims of size 1 taken out and put in, and the sizes as a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch

from trtdiag.network.dtype import ANY, INDICES, DType
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Layer, require, require_axes, require_equal
from trtdiag.network.tensor import Tensor, object_array, with_array
from trtdiag.symbolic.build import ONE


@dataclass(frozen=True)
class Squeeze(Layer, takes=ANY):
    """The input without the dims ``axes``, each of size 1 (TensorRT has the axes as a constant input)."""

    axes: tuple[int, ...]

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The shape without them; sizes stay known."""
        x = inputs[0]
        require_axes(self.axes, x.rank)
        for axis in self.axes:
            require_equal(facts, x.shape[axis], ONE, f"dim {axis} to be taken out")
        array = x.array()
        if array is not None:
            return (with_array(x.dtype, np.squeeze(array, self.axes)),)
        return (Tensor(x.dtype, tuple(size for axis, size in enumerate(x.shape) if axis not in self.axes)),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """By ``torch.squeeze``."""
        return (inputs[0].squeeze(self.axes),)


@dataclass(frozen=True)
class Unsqueeze(Layer, takes=ANY):
    """The input with new dims of size 1 at ``axes`` of the output."""

    axes: tuple[int, ...]

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The shape with them; sizes stay known."""
        x = inputs[0]
        require_axes(self.axes, x.rank + len(self.axes))
        array = x.array()
        if array is not None:
            return (with_array(x.dtype, np.expand_dims(array, self.axes)),)
        sizes = iter(x.shape)
        shape = tuple(ONE if axis in self.axes else next(sizes) for axis in range(x.rank + len(self.axes)))
        return (Tensor(x.dtype, shape),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """One dim after the other, from the front."""
        return (reduce(torch.unsqueeze, sorted(self.axes), inputs[0]),)


@dataclass(frozen=True)
class Shape(Layer, takes=ANY):
    """The sizes of the input as a vector of int64, or of int32, which is what TensorRT 8.6 gives."""

    to: DType = DType.INT64

    def __post_init__(self) -> None:
        require(self.to in INDICES, f"sizes cannot be {self.to.value}")

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """A vector whose values are the shape."""
        x = inputs[0]
        return (with_array(self.to, object_array(x.shape, (x.rank,))),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The shape."""
        return (torch.tensor(inputs[0].shape, dtype=self.to.torch),)
