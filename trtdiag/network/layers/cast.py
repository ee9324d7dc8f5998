"""Cast and Identity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from trtdiag.network.dtype import ANY, DType
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.known_values import as_bool, truth_of
from trtdiag.network.layer import Layer, require
from trtdiag.network.tensor import Tensor, object_array, with_array


@dataclass(frozen=True)
class Cast(Layer, takes=ANY):
    """Each element in another dtype: floats to integers towards zero, everything but zero to true."""

    to: DType

    def __post_init__(self) -> None:
        require(self.to in ANY, f"nothing is cast to {self.to.value}")

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The shape of the input; sizes stay known."""
        x = inputs[0]
        sizes = x.static_shape
        if x.values is None or sizes is None or self.to.is_float:
            return (Tensor(self.to, x.shape),)
        values = x.values
        if self.to is DType.BOOL and x.dtype is not DType.BOOL:
            values = tuple(as_bool(truth_of(value)) for value in values)
        return (with_array(self.to, object_array(values, sizes)),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """``Tensor.to``, which rounds in the same way."""
        return (inputs[0].to(self.to.torch),)


@dataclass(frozen=True)
class Identity(Layer, takes=ANY):
    """The input."""

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The input's type and values."""
        return (inputs[0],)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The input itself."""
        return (inputs[0],)
