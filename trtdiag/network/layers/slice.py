"""Slice: a regular part of a tensor, also reaching over its ends (this is how a network pads)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import torch

from trtdiag.network.dtype import ANY
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import (
    Given,
    Layer,
    Sizes,
    given_values,
    numbers,
    require,
    require_dtype,
    require_rank,
)
from trtdiag.network.tensor import Tensor, shape_of, with_array
from trtdiag.symbolic import Expr, Num, add, as_expr, mul, sub, to_text


class SampleMode(Enum):
    """What an index outside the input stands for."""

    STRICT_BOUNDS = "an error"
    FILL = "the value of the last input, else 0"
    CLAMP = "the nearest element"
    REFLECT = "the element at the index mirrored at the ends, which are not repeated"
    WRAP = "the element at the index counted around"


@dataclass(frozen=True)
class Slice(Layer, inputs=(1, 5), takes=ANY):
    """The elements ``start[d] + i * stride[d]`` for i from 0 to ``size[d] - 1`` of each dim d.

    Each of the three is static or ``INPUT``: then it comes as a further input, in this order.  With FILL a scalar may
    follow.  A stride of 0 repeats one element, a negative one goes backwards.
    """

    start: Sizes
    size: Sizes
    stride: Sizes
    mode: SampleMode = SampleMode.STRICT_BOUNDS

    def __post_init__(self) -> None:
        static = [numbers for numbers in (self.start, self.size, self.stride) if isinstance(numbers, tuple)]
        require(len({len(numbers) for numbers in static}) <= 1, "start, size and stride differ in length")
        if isinstance(self.size, tuple):
            require(all(number >= 0 for number in self.size), f"the size {self.size} is negative")

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The size, from the attribute or exactly from the shape tensor."""
        x, waiting = inputs[0], list(inputs[1:])
        found: list[tuple[Expr, ...] | None] = []
        for role, attribute in (("start", self.start), ("size", self.size), ("stride", self.stride)):
            if not isinstance(attribute, Given):
                values: tuple[Expr, ...] | None = shape_of(attribute)
            else:
                require(bool(waiting), f"there is no input for the {role}")
                tensor = waiting.pop(0)
                if role == "size" or tensor.values is not None:
                    values = given_values(tensor, f"the {role}")
                else:  # only the size makes the shape; where to begin may be known when the network runs
                    require_rank(tensor, (1,), f"the {role}")
                    values = None
            require(values is None or len(values) == x.rank, f"the {role} has not one number for each dim of the input")
            found.append(values)
        if waiting and self.mode is SampleMode.FILL:
            fill = waiting.pop(0)
            require_dtype(fill, (x.dtype,), "the fill value")
            require_rank(fill, (0,), "the fill value")
        require(not waiting, f"{len(waiting)} inputs are too many")
        start, size, stride = found
        assert size is not None
        for count in size:
            if isinstance(count, Num) and count.value >= 0:
                continue
            require(not facts.never_at_least(count, 0), f"the size {to_text(count)} is negative")
        if self.mode is SampleMode.STRICT_BOUNDS and start is not None and stride is not None:
            _require_inside(x, start, size, stride, facts)
        array = x.array()
        if array is not None and self.mode is SampleMode.STRICT_BOUNDS and start is not None and stride is not None:
            columns = [_indices(*triple) for triple in zip(start, size, stride, strict=True)]
            if all(column is not None for column in columns):
                for axis, column in enumerate(columns):
                    array = array.take(column, axis)  # type: ignore[arg-type]
                return (with_array(x.dtype, array),)
        return (Tensor(x.dtype, size),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """A view of what lies inside, copied once; indices outside by the mode."""
        waiting = list(inputs[1:])
        start, size, stride = (
            numbers(waiting.pop(0)) if isinstance(attribute, Given) else attribute
            for attribute in (self.start, self.size, self.stride)
        )
        x = y = inputs[0]
        kept: list[slice] = []
        for axis, (first, count, step) in enumerate(zip(start, size, stride, strict=True)):
            length = x.shape[axis]
            low, high = _fitting(first, count, step, length)
            if high - low == count or self.mode is SampleMode.FILL:
                y = _part(y, axis, first + low * step, high - low, step)
            elif self.mode is SampleMode.STRICT_BOUNDS:
                raise IndexError(f"the slice leaves dim {axis} of size {length}")
            else:
                y = y.index_select(axis, _inside(first + torch.arange(count) * step, length, self.mode))
            kept.append(slice(low, high))
        if y.shape != torch.Size(size):
            value = waiting[0] if waiting else torch.zeros((), dtype=y.dtype)
            filled = value.expand(tuple(size)).clone()
            filled[tuple(kept)] = y
            return (filled,)
        # A view would keep all of the input, of which little may be left, in memory.
        return (x if y is x else y.clone(memory_format=torch.contiguous_format),)


def _fitting(first: int, count: int, step: int, length: int) -> tuple[int, int]:
    """The range of i from 0 to ``count - 1`` with ``first + i * step`` in a dim of ``length``."""
    if step == 0:
        low, high = (0, count) if 0 <= first < length else (0, 0)
    elif step > 0:
        low, high = -(first // step), -((first - length) // step)
    else:
        low, high = -((length - 1 - first) // -step), first // -step + 1
    low = min(max(low, 0), count)
    return low, max(low, min(high, count))


def _part(x: torch.Tensor, axis: int, first: int, count: int, step: int) -> torch.Tensor:
    """The elements ``first + i * step`` of one dim, all of them inside; a view where the step is not negative."""
    if count == 0:
        return x.narrow(axis, 0, 0)
    if step == 0:
        return x.narrow(axis, first, 1).expand([count if dim == axis else -1 for dim in range(x.dim())])
    if step < 0:
        return _part(x, axis, first + (count - 1) * step, count, -step).flip(axis)
    if first == 0 and count == x.shape[axis]:
        return x
    y = x.narrow(axis, first, (count - 1) * step + 1)
    return y if step == 1 else y[(slice(None),) * axis + (slice(None, None, step),)]


def _inside(index: torch.Tensor, length: int, mode: SampleMode) -> torch.Tensor:
    """The element that each index stands for."""
    if mode is SampleMode.WRAP:
        return index % length
    if mode is SampleMode.REFLECT:
        period = max(1, 2 * (length - 1))
        folded = index % period
        return torch.minimum(folded, period - folded) if length > 1 else torch.zeros_like(index)
    return index.clamp(0, length - 1)


def _indices(start: Expr, size: Expr, stride: Expr) -> list[int] | None:
    if not (isinstance(start, Num) and isinstance(size, Num) and isinstance(stride, Num)):
        return None
    return [int(start.value) + step * int(stride.value) for step in range(int(size.value))]


def _require_inside(
    x: Tensor, start: Sequence[Expr], size: Sequence[Expr], stride: Sequence[Expr], facts: ShapeConstraints
) -> None:
    """Refuse what leaves the input for all sizes; what may leave it for some is an error of the run."""
    for axis, (first, count, step, length) in enumerate(zip(start, size, stride, x.shape, strict=True)):
        if _plainly_inside(first, count, step, length) or not facts.at_least(count, 1):
            continue
        last = add(first, mul(step, sub(count, 1)))
        for index in (first, last):
            leaves = facts.never_at_least(index, 0) or facts.never_at_least(sub(sub(length, as_expr(1)), index), 0)
            require(not leaves, f"dim {axis}: the index {to_text(index)} is outside of {to_text(length)} elements")


def _plainly_inside(first: Expr, count: Expr, step: Expr, length: Expr) -> bool:
    """Whether a slice of numbers, or one of a whole dim, needs no proof: nearly every slice is one of these."""
    if not (isinstance(first, Num) and isinstance(step, Num)):
        return False
    if isinstance(count, Num) and isinstance(length, Num):
        last = first.value + step.value * (count.value - 1)
        return count.value < 1 or (0 <= first.value < length.value and 0 <= last < length.value)
    return first.value == 0 and step.value == 1 and count == length
