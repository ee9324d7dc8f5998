"""Scatter: a copy with elements replaced by index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import torch

from trtdiag.network.dtype import COMPUTED, INDICES
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import (
    Layer,
    LayerError,
    refuse_negative,
    require,
    require_axes,
    require_dtype,
    require_equal,
)
from trtdiag.network.tensor import Tensor
from trtdiag.symbolic import Num


class ScatterMode(Enum):
    """What one index stands for: an element across ``axis``, or, with all that its row says, a position."""

    ELEMENT = "element"
    ND = "nd"


@dataclass(frozen=True)
class Scatter(Layer, inputs=3, takes=COMPUTED):
    """The first input with updates at indices (inputs: x, indices, updates).

    ELEMENT: ``out[indices[i][j]][j] = updates[i][j]`` for axis 0.  ND: each row of the indices' last dim is a position
    in the leading dims of x, which one slice of the updates replaces.  Where a position occurs twice the result is
    one of the updates: TensorRT does not say which.  Indices are never negative.
    """

    mode: ScatterMode
    axis: int = 0

    def __post_init__(self) -> None:
        require(self.mode is not ScatterMode.ND or self.axis == 0, "ND has no axis")

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The type of x."""
        x, indices, updates = inputs
        require_dtype(indices, INDICES, "the indices")
        require_dtype(updates, (x.dtype,), "the updates")
        if self.mode is ScatterMode.ELEMENT:
            require_axes((self.axis,), x.rank)
            expected = indices.shape
            require(indices.rank == x.rank, f"the ranks {x.rank} and {indices.rank} differ")
        else:
            require(indices.rank >= 1, "the indices have no dim for positions")
            depth = indices.shape[-1]
            if not (isinstance(depth, Num) and isinstance(depth.value, int) and 1 <= depth.value <= x.rank):
                raise LayerError("the last dim of the indices is no number of dims of the input")
            expected = (*indices.shape[:-1], *x.shape[depth.value :])
        require(updates.rank == len(expected), f"the updates have rank {updates.rank}; it must be {len(expected)}")
        for axis, (left, right) in enumerate(zip(updates.shape, expected, strict=True)):
            require_equal(facts, left, right, f"dim {axis} of the updates")
        return (Tensor(x.dtype, x.shape),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """On a copy; an index outside is an error, a negative one too."""
        x, indices, updates = inputs[0], inputs[1].long(), inputs[2]
        refuse_negative(indices)
        if self.mode is ScatterMode.ELEMENT:
            return (x.scatter(self.axis, indices, updates),)
        return (x.index_put(indices.unbind(-1), updates),)
