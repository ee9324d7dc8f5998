"""Concatenation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from trtdiag.network.dtype import COMPUTED
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Layer, require, require_axes, require_dtype, require_fitting, require_same_dtype
from trtdiag.network.tensor import Tensor, with_array
from trtdiag.shapes.shape_constraints import concatenated
from trtdiag.symbolic import add


@dataclass(frozen=True)
class Concatenation(Layer, inputs=(1, None)):
    """The inputs one after the other along ``axis``; their other dims are equal (nothing broadcasts)."""

    axis: int

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The first input's shape with the sum along the axis."""
        first = inputs[0]
        require_dtype(first, COMPUTED, "the first input")
        require_same_dtype(inputs)
        require(len({tensor.rank for tensor in inputs}) == 1, "the inputs differ in rank")
        require_axes((self.axis,), first.rank)
        require_fitting(facts, concatenated([tensor.shape for tensor in inputs], self.axis))
        arrays = [array for tensor in inputs if (array := tensor.array()) is not None]
        if len(arrays) == len(inputs):
            return (with_array(first.dtype, np.concatenate(arrays, self.axis)),)
        size = add(0, *(tensor.shape[self.axis] for tensor in inputs))
        return (Tensor(first.dtype, (*first.shape[: self.axis], size, *first.shape[self.axis + 1 :])),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """By ``torch.cat``."""
        return (torch.cat(inputs, self.axis),)
