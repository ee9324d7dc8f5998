"""Columns of an output: slices along a fixed dim that have magnitudes of their own, as boxes and scores in one tensor.

A tolerance of the whole tensor's magnitude would let a score be off by what a box of hundreds of pixels may be.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch.export import ExportedProgram

from trtdiag.verification.facts import Tolerance

APART = 10.0
"""How many times the magnitude of the least column that of the greatest is, for columns to be told apart at all."""
LEAST_SHARE = 1e-3
"""Of the whole tensor's magnitude, the least that counts for a column's.

Own choice: boxes have up to a thousand pixels beside scores up to 1.  What is less comes out of sums of greater numbers
that cancel, whose rounding is as large as theirs.
"""


@dataclass(frozen=True)
class Columns:
    """The columns of one output.

    Attributes:
        dim: Along which dim they are; ``None`` where the whole tensor is one.
        sizes: The magnitude of each, shape (columns,).
    """

    dim: int | None
    sizes: torch.Tensor

    def largest(self, values: torch.Tensor) -> torch.Tensor:
        """The largest value of each column, of a tensor of the output's shape without negative values."""
        return values.amax().reshape(1) if self.dim is None else _along(values, self.dim)

    def allowed(self, tolerance: Tolerance) -> torch.Tensor:
        """How far each may be off, shape (columns,)."""
        return tolerance.absolute + tolerance.relative * self.sizes

    def name(self, index: int, rank: int) -> str:
        """``[:, 4]`` for the one of that number; nothing where the whole tensor is one."""
        if self.dim is None:
            return ""
        return f"[{', '.join(str(index) if dim == self.dim else ':' for dim in range(rank))}]"


def columns_of(magnitudes: torch.Tensor, fixed: Collection[int]) -> Columns:
    """The columns of an output along the dim whose slices differ most in magnitude.

    Args:
        magnitudes: Of its elements, at least one, 0 where they are not finite.
        fixed: Its dims that have the same size in every call; the first, which counts rows, is none of them.
    """
    whole = magnitudes.amax().reshape(1)
    best, apart = Columns(None, whole), APART
    for dim in fixed:
        if 0 < dim < magnitudes.dim() and magnitudes.shape[dim] > 1:
            sizes = _along(magnitudes, dim).clamp(min=float(whole) * LEAST_SHARE)
            spread = float(sizes.max() / sizes.min()) if float(whole) else 1.0
            if spread >= apart:
                best, apart = Columns(dim, sizes), spread
    return best


def fixed_dims(exported: ExportedProgram) -> list[tuple[int, ...]]:
    """Of each output, the dims that have the same size in every call, but for the first."""
    values = {node.name: node.meta.get("val") for node in exported.graph.nodes}
    found = []
    for output in exported.graph_signature.user_outputs:
        value = values.get(output) if isinstance(output, str) else None
        shape = value.shape if isinstance(value, torch.Tensor) else ()
        found.append(tuple(dim for dim, size in enumerate(shape) if dim and isinstance(size, int)))
    return found


def _along(values: torch.Tensor, dim: int) -> torch.Tensor:
    return values.amax([other for other in range(values.dim()) if other != dim])
