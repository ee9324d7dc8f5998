"""OneHot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from trtdiag.network.dtype import COMPUTED, INDICES
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Layer, given_scalar, require, require_axes, require_dtype
from trtdiag.network.tensor import Tensor


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
