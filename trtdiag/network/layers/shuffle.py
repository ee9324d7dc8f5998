"""Shuffle: transpose, reshape, transpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from trtdiag.network.dtype import ANY
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Given, Layer, LayerError, given_values, numbers, require
from trtdiag.network.tensor import Tensor, shape_of, with_array
from trtdiag.shapes.op_call import Shape
from trtdiag.symbolic import Expr, Num, to_text

_REST = Num(-1)
_SAME = Num(0)


@dataclass(frozen=True)
class Shuffle(Layer, inputs=(1, 2), takes=ANY):
    """The input's dims reordered, its elements in a new shape, and those dims reordered.

    Attributes:
        first: The permutation before; dim i of its result is dim ``first[i]``.  ``None`` keeps the order.
        reshape: The new sizes, or a further input.  One -1 takes the rest of the elements.  ``None`` keeps the shape.
        second: The permutation after.
        zero_is_placeholder: Whether a 0 among the new sizes means the size of the same dim before the reshape;
            otherwise it is an empty dim.
    """

    first: tuple[int, ...] | None = None
    reshape: tuple[int, ...] | Given | None = None
    second: tuple[int, ...] | None = None
    zero_is_placeholder: bool = True

    def __post_init__(self) -> None:
        for name, order in (("first", self.first), ("second", self.second)):
            fits = order is None or sorted(order) == list(range(len(order)))
            require(fits, f"{name} {order} is no permutation")
        if isinstance(self.reshape, tuple):
            fits = all(size >= -1 for size in self.reshape) and self.reshape.count(-1) <= 1
            require(fits, f"the sizes {self.reshape} are not positive, 0 and at most one -1")

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The shape exactly, also from a shape tensor; sizes stay known."""
        x = inputs[0]
        expected = 2 if isinstance(self.reshape, Given) else 1
        require(len(inputs) == expected, f"there are {len(inputs)} inputs; the attributes ask for {expected}")
        shape = _permuted(x.shape, self.first)
        if self.reshape is not None:
            given = isinstance(self.reshape, Given)
            asked = given_values(inputs[1], "the new shape") if given else shape_of(self.reshape)  # type: ignore[arg-type]
            shape = self._reshaped(shape, asked, facts)
        between, shape = shape, _permuted(shape, self.second)
        array, sizes = x.array(), Tensor(x.dtype, between).static_shape
        if array is not None and sizes is not None:
            # Without an order numpy would reverse the dims.
            moved = (array if self.first is None else np.transpose(array, self.first)).reshape(sizes)
            return (with_array(x.dtype, moved if self.second is None else np.transpose(moved, self.second)),)
        return (Tensor(x.dtype, shape),)

    def _reshaped(self, shape: Shape, asked: Sequence[Expr], facts: ShapeConstraints) -> Shape:
        sizes = list(asked)
        for axis, size in enumerate(sizes):
            if size == _SAME and self.zero_is_placeholder:
                require(axis < len(shape), f"new dim {axis} is 0, but there is no dim {axis} before")
                sizes[axis] = shape[axis]
        rests = [axis for axis, size in enumerate(sizes) if size == _REST]
        require(len(rests) <= 1, "more than one new dim is -1")
        words = f"from ({', '.join(map(to_text, shape))}) to ({', '.join(map(to_text, asked))})"
        if rests:
            rest = facts.quotient(shape, [size for axis, size in enumerate(sizes) if axis != rests[0]])
            if rest is None:
                raise LayerError(f"{words}: no whole size is proven for the -1")
            sizes[rests[0]] = rest
        elif facts.quotient(shape, sizes) != Num(1):
            require(facts.same_count(shape, sizes), f"{words}: the counts are not proven to be equal")
        return tuple(sizes)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """By ``permute`` and ``reshape``."""
        x = inputs[0] if self.first is None else inputs[0].permute(self.first)
        if self.reshape is not None:
            asked = numbers(inputs[1]) if isinstance(self.reshape, Given) else self.reshape
            same = self.zero_is_placeholder
            x = x.reshape([x.shape[axis] if same and size == 0 else size for axis, size in enumerate(asked)])
        return (x if self.second is None else x.permute(self.second),)


def _permuted(shape: Shape, order: tuple[int, ...] | None) -> Shape:
    if order is None:
        return shape
    require(len(order) == len(shape), f"the permutation {order} is not of {len(shape)} dims")
    return tuple(shape[axis] for axis in order)
