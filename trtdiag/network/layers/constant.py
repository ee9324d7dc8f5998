"""Constant and Fill: tensors that the network brings itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch

from trtdiag.network.dtype import INDICES, DType
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import (
    INPUT,
    Given,
    Layer,
    Sizes,
    given_values,
    numbers,
    require,
    require_dtype,
    require_rank,
)
from trtdiag.network.tensor import MOST_VALUES, Tensor, object_array, shape_of, with_array
from trtdiag.shapes.op_call import Shape
from trtdiag.symbolic import Num, add, mul


@dataclass(frozen=True)
class Constant(Layer, inputs=0):
    """A tensor of the network's weights, named by its content (see ``weights``)."""

    weights: str
    dtype: DType
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        require(all(size >= 0 for size in self.shape), f"the shape {self.shape} has a negative size")

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """What the attributes say; the builder adds the values of small integer constants."""
        return (Tensor(self.dtype, shape_of(self.shape)),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The weights themselves: ``run`` hands them in."""
        return (inputs[0],)


@dataclass(frozen=True)
class Fill(Layer, inputs=(0, 3)):
    """``alpha + beta[0] * i[0] + beta[1] * i[1] + ...`` at index i: TensorRT's LINSPACE.

    With ``alpha`` and ``beta`` static they are numbers of ``dtype``; else both come as inputs, a scalar and a vector
    with an element for each dim.  The random operations of TensorRT's layer are not here: random ops stay in PyTorch.
    """

    shape: Sizes
    dtype: DType
    alpha: int | float | Given = 0
    beta: tuple[int | float, ...] | Given = ()

    def __post_init__(self) -> None:
        require(self.dtype in (DType.FLOAT32, *INDICES), f"Fill gives float32, int32 and int64, not {self.dtype.value}")
        require((self.alpha is INPUT) == (self.beta is INPUT), "alpha and beta are both static or both inputs")
        if isinstance(self.shape, tuple):
            require(all(size >= 0 for size in self.shape), f"the shape {self.shape} has a negative size")
            same = isinstance(self.beta, Given) or len(self.beta) == len(self.shape)
            require(same, "beta needs one number for each dim")
        if self.dtype is not DType.FLOAT32 and not (isinstance(self.alpha, Given) or isinstance(self.beta, Given)):
            whole = all(isinstance(number, int) for number in (self.alpha, *self.beta))
            require(whole, f"alpha and beta must be integers for {self.dtype.value}")

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The shape from the attribute or the values of the first input."""
        waiting = list(inputs)
        expected = (self.shape is INPUT) + 2 * (self.alpha is INPUT)
        require(len(waiting) == expected, f"there are {len(waiting)} inputs; the attributes ask for {expected}")
        shape = given_values(waiting.pop(0), "the shape") if isinstance(self.shape, Given) else shape_of(self.shape)
        if waiting:
            alpha, beta = waiting
            require_dtype(alpha, (self.dtype,), "alpha")
            require_dtype(beta, (self.dtype,), "beta")
            require_rank(alpha, (0,), "alpha")
            require(beta.static_shape == (len(shape),), f"beta is {beta}; it needs one element for each dim")
        elif not isinstance(self.beta, Given):
            require(len(self.beta) == len(shape), "beta needs one number for each dim")
        return (self._with_values(shape, inputs[len(inputs) - 2 :] if self.alpha is INPUT else ()),)

    def _with_values(self, shape: Shape, terms: Sequence[Tensor]) -> Tensor:
        """The type, with the elements where they are few integers of known terms."""
        made = Tensor(self.dtype, shape)
        sizes = made.static_shape
        if sizes is None or prod(sizes) > MOST_VALUES or self.dtype.is_float:
            return made
        if isinstance(self.alpha, Given) or isinstance(self.beta, Given):
            if terms[0].values is None or terms[1].values is None:
                return made
            alpha, beta = terms[0].values[0], terms[1].values
        else:
            alpha, beta = Num(int(self.alpha)), tuple(Num(int(step)) for step in self.beta)
        places = np.ndindex(*sizes)
        values = [add(alpha, *(mul(i, step) for i, step in zip(place, beta, strict=True))) for place in places]
        return with_array(self.dtype, object_array(values, sizes))

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """One term for each dim."""
        waiting = list(inputs)
        sizes = numbers(waiting.pop(0)) if isinstance(self.shape, Given) else self.shape
        dtype = self.dtype.torch
        if isinstance(self.alpha, Given) or isinstance(self.beta, Given):
            alpha, beta = waiting
        else:
            alpha, beta = torch.tensor(self.alpha, dtype=dtype), torch.tensor(self.beta, dtype=dtype)
        result = alpha.expand(sizes)
        for axis, size in enumerate(sizes):
            steps = torch.arange(size, dtype=dtype) * beta[axis]
            result = result + steps.reshape([-1 if other == axis else 1 for other in range(len(sizes))])
        return (result.clone(),)
