"""A tensor of a network: dtype, symbolic shape, and its values where they are sizes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from trtdiag.network.dtype import DType
from trtdiag.shapes.op_call import Shape
from trtdiag.symbolic import Expr, Num, as_expr, to_text

MOST_VALUES = 64
"""Elements of the largest tensor whose values are followed: a shape tensor has one for each of at most 8 dims."""


@dataclass(frozen=True)
class Tensor:
    """What is known of a tensor before the network runs.

    Attributes:
        dtype: Its dtype.
        shape: The size of each dim, over the symbols of the network's inputs.
        values: For small integer and bool tensors that follow from sizes and constants: every element in row-major
            order, bools as 0 and 1.  ``None`` where the elements are only known when the network runs.
    """

    dtype: DType
    shape: Shape
    values: tuple[Expr, ...] | None = None

    @property
    def rank(self) -> int:
        """The number of dims."""
        return len(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The sizes as numbers; ``None`` where one depends on a symbol."""
        sizes = tuple(size.value for size in self.shape if isinstance(size, Num) and isinstance(size.value, int))
        return sizes if len(sizes) == len(self.shape) else None

    def array(self) -> np.ndarray[Any, np.dtype[np.object_]] | None:
        """The values as an array of expressions in the tensor's shape."""
        sizes = self.static_shape
        return None if self.values is None or sizes is None else object_array(self.values, sizes)

    def __str__(self) -> str:
        return f"{self.dtype.value}[{', '.join(to_text(size) for size in self.shape)}]"


def shape_of(sizes: Iterable[Expr | int]) -> Shape:
    """Sizes, numbers or expressions, as a shape."""
    return tuple(as_expr(size) for size in sizes)


def object_array(values: Iterable[Expr], sizes: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.object_]]:
    """Expressions in an array, which numpy then cuts, joins and repeats like numbers."""
    array = np.empty(prod(sizes), dtype=object)
    for index, value in enumerate(values):
        array[index] = value
    return array.reshape(sizes)


def with_array(dtype: DType, array: np.ndarray[Any, np.dtype[np.object_]]) -> Tensor:
    """A tensor with these values, without them where they are too many or the dtype cannot hold one of them."""
    shape = shape_of(array.shape)
    values = tuple(array.reshape(-1))
    fits = all(not isinstance(v, Num) or (isinstance(v.value, int) and dtype.holds(v.value)) for v in values)
    return Tensor(dtype, shape, values if fits and len(values) <= MOST_VALUES else None)
