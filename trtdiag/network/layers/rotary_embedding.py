"""RotaryEmbedding: pairs of elements turned by an angle that their position decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from trtdiag.network.dtype import FLOATS, INDICES
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import (
    Layer,
    refuse_negative,
    require,
    require_dtype,
    require_equal,
    require_rank,
    require_same_dtype,
)
from trtdiag.network.tensor import Tensor
from trtdiag.symbolic import Num, mul


@dataclass(frozen=True)
class RotaryEmbedding(Layer, inputs=(3, 4), takes=FLOATS):
    """``(a, b)`` becomes ``(a cos - b sin, b cos + a sin)`` for each pair of the last dim.

    Inputs are x (batch, heads, steps, width) and cosines and sines (batch, steps, pairs); or these are (positions,
    pairs), and a fourth input (batch, steps) of integers says which row each step has.

    Attributes:
        interleaved: Whether the pairs are neighbours; else one is in the first half and one in the second.
        rotary_embedding_dim: How many elements of the width, from its start, are turned; the others stay.  0: all.
    """

    interleaved: bool = False
    rotary_embedding_dim: int = 0

    def __post_init__(self) -> None:
        dim = self.rotary_embedding_dim
        require(dim >= 0 and dim % 2 == 0, f"{dim} elements are no pairs")

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The type of x."""
        x, cos, sin = inputs[:3]
        require_same_dtype(inputs[:3])
        require_rank(x, (4,))
        placed = len(inputs) == 4
        for tensor, role in ((cos, "cos"), (sin, "sin")):
            require_rank(tensor, (2,) if placed else (3,), role)
        if placed:
            positions = inputs[3]
            require_dtype(positions, INDICES, "the positions")
            require_rank(positions, (2,), "the positions")
            require_equal(facts, cos.shape[0], sin.shape[0], "rows of cos and sin")
        for rows in (inputs[3],) if placed else (cos, sin):
            require_equal(facts, rows.shape[0], x.shape[0], "batch")
            require_equal(facts, rows.shape[1], x.shape[2], "steps")
        width, dim = x.shape[3], self.rotary_embedding_dim
        if dim:
            require(not facts.never_at_least(width, dim), f"{dim} elements are more than the width")
        for tensor in (cos, sin):
            require_equal(facts, mul(2, tensor.shape[-1]), Num(dim) if dim else width, "turned elements")
        return (Tensor(x.dtype, x.shape),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Each product and each sum in the dtype of x."""
        x, cos, sin = inputs[:3]
        if len(inputs) == 4:
            rows = inputs[3].reshape(-1)
            refuse_negative(rows, "position")
            cos, sin = (table.index_select(0, rows.long()).reshape(*inputs[3].shape, -1) for table in (cos, sin))
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        turned, kept = x.tensor_split([2 * cos.shape[-1]], -1)
        if self.interleaved:
            one, other = turned[..., 0::2], turned[..., 1::2]
        else:
            one, other = turned.tensor_split([cos.shape[-1]], -1)
        pair = (one * cos - other * sin, other * cos + one * sin)
        y = torch.stack(pair, -1).flatten(-2) if self.interleaved else torch.cat(pair, -1)
        return (torch.cat([y, kept], -1) if kept.shape[-1] else y,)
