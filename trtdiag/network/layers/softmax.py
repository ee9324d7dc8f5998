"""SoftMax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from trtdiag.network.dtype import FLOATS
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Layer, require_axes
from trtdiag.network.tensor import Tensor


@dataclass(frozen=True)
class SoftMax(Layer, takes=FLOATS):
    """``exp(x) / sum(exp(x))`` along one axis."""

    axis: int

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The type of the input."""
        require_axes((self.axis,), inputs[0].rank)
        return (Tensor(inputs[0].dtype, inputs[0].shape),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Computed in float32 for the 16 bit types."""
        return (torch.softmax(inputs[0].float(), self.axis).to(inputs[0].dtype),)
