"""TopK."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import torch

from trtdiag.network.dtype import INDICES, NUMBERS, DType
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Given, Layer, given_scalar, require, require_axes
from trtdiag.network.tensor import Tensor
from trtdiag.symbolic import as_expr, sub, to_text


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
