"""NonZero: the places at which something stands, as many as there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from trtdiag.network.dtype import BOOLS, INDICES, DType
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Layer, require
from trtdiag.network.tensor import Tensor
from trtdiag.shapes.shape_constraints import elements
from trtdiag.symbolic import Expr, Num, Sym


@dataclass(frozen=True)
class NonZero(Layer, takes=BOOLS):
    """The places of a bool tensor that are true: one column for each, in row-major order, one row for each dim.

    How many there are is known only when the network runs.  The network calls this size ``count``.  Two layers of one
    count find equally many, or the run is refused.

    Attributes:
        count: The symbol of the number of columns.
        indices: int32 (TensorRT 8.6 has no other), or int64.
    """

    count: str
    indices: DType = DType.INT32
    labels: ClassVar[frozenset[str]] = frozenset({"count"})

    def __post_init__(self) -> None:
        require(self.indices in INDICES, f"the indices cannot be {self.indices.value}")
        require(self.count.isidentifier(), f"{self.count!r} is no symbol")

    def born(self, inputs: Sequence[Tensor]) -> Mapping[str, Expr]:
        """The count, which is that of all elements at most."""
        return {self.count: elements(inputs[0].shape)}

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """A row for each dim, a column for each place."""
        x = inputs[0]
        require(x.rank > 0, "the input has no dims, so its places have no indices")
        return (Tensor(self.indices, (Num(x.rank), Sym(self.count))),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """By ``torch.nonzero``, turned."""
        return (inputs[0].nonzero().t().contiguous().to(self.indices.torch),)
