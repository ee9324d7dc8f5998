"""Cumulative: running sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from trtdiag.network.dtype import NUMBERS
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Layer, require_axes
from trtdiag.network.tensor import Tensor


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
