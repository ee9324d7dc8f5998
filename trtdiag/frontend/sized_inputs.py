"""Inputs of given sizes, made from the example's so that their values stay plausible."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from trtdiag.frontend.program import InputTensor
from trtdiag.graph.operators import INTEGERS
from trtdiag.symbolic import evaluate

SEED = 20240229
"""So that two runs compare the same values."""
_ORDERED = INTEGERS | {torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool}
"""PyTorch has no min, and no order, of 8-bit floats and of unsigned integers of more than 8 bits."""
_COUNTED_AS_INT64 = frozenset({torch.uint16, torch.uint32, torch.uint64})
"""PyTorch selects no places of these."""


class InputMaker:
    """Makes flat user inputs at points.

    An input that has the example's shape at a point is the example's.  Of another shape, floats are normal with the
    example's mean and deviation; integers, bools and masks are the example's values, repeated or cut along each dim,
    since what the example has is what the program takes: as many special tokens in a row, positions that count up go
    on counting.  Where they may be indices into a dim, being less than its size in the example, they stay less than its
    size at the point.

    Args:
        inputs: The user's inputs in order.
        example: Flat example values in the same order; ``None`` where the program has none.
        indices: Placeholders that may be indices: a mask of ones, less than every size, would be all zeros where a
            batch is 1.  All where it is not given.
        bounds: What integers without an example stay below, by placeholder; 2 for others.
        ends: Of lists that end at the length of another input its placeholder, by theirs.
    """

    def __init__(
        self,
        inputs: Sequence[InputTensor],
        example: Sequence[Any] | None,
        indices: Collection[str] | None = None,
        bounds: Mapping[str, int] | None = None,
        ends: Mapping[str, str] | None = None,
    ) -> None:
        self._inputs, self._indices, self._bounds, self._ends = inputs, indices, bounds or {}, ends or {}
        self._example = example if example is not None and len(example) == len(inputs) else None

    def at(self, sizes: Mapping[str, int]) -> list[Any]:
        """The inputs at a point: symbol -> size."""
        generator = torch.Generator().manual_seed(SEED)
        shapes = [[self._size(dim.expr, sizes, dim.hint) for dim in tensor.dims] for tensor in self._inputs]
        examples = self._example or [None] * len(self._inputs)
        pairs = list(zip(examples, shapes, strict=True))
        resized = [
            sizes
            for example, shape in pairs
            if isinstance(example, torch.Tensor)
            for sizes in zip(example.shape, shape, strict=True)
        ]
        lengths = {tensor.placeholder: shape[0] for tensor, shape in zip(self._inputs, shapes, strict=True) if shape}
        made: list[Any] = []
        for (example, shape), tensor in zip(pairs, self._inputs, strict=True):
            if tensor.dtype is None:  # a number that the program was exported for, unless it may vary
                made.append(example if tensor.number is None else self._size(tensor.number, sizes, example))
            elif not isinstance(example, torch.Tensor):
                bound = self._bounds.get(tensor.placeholder, 2)
                made.append(_without_example(tensor.dtype, shape, generator, bound))
            else:
                here = example.detach().cpu()
                there = _like(here, shape, generator)
                if self._indices is None or tensor.placeholder in self._indices:
                    there = _inside(there, here, resized)
                end = lengths.get(self._ends.get(tensor.placeholder, ""))
                made.append(_in_order(there, here, resized, end).to(example.device))
        return made

    def _size(self, expr: Any, sizes: Mapping[str, int], hint: int | None) -> int:
        try:
            return int(evaluate(expr, sizes))
        except KeyError:
            return 1 if hint is None else hint


def _like(example: torch.Tensor, shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    if tuple(example.shape) == tuple(shape):
        return example
    if example.is_complex() and example.numel():
        drawn = torch.randn(shape, generator=generator, dtype=torch.complex128)
        made = drawn * example.to(drawn.dtype).std(correction=0) + example.to(drawn.dtype).mean()
        return made.to(example.dtype)
    if example.dtype.is_floating_point and example.numel():
        values = example.float()
        low, high = float(values.min()), float(values.max())
        if bool(torch.isfinite(values).all()) and not _two_values(example):
            made = torch.randn(shape, generator=generator) * values.std(correction=0) + values.mean()
            # Values of one sign (probabilities, sizes) keep it.
            return made.clamp(low if low >= 0 else -math.inf, high if high <= 0 else math.inf).to(example.dtype)
    return repeated(example, shape)


def repeated(example: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """The example's values at another shape of as many dims, repeated or cut along each dim; zeros where it has none.

    Integers that count up in equal steps along a dim, three or more of them, go on so.  A mask that hides the first of
    a row and none of the last is cut and repeated from its end: that is its padding, and a row that hides all it has is
    an example of nothing.
    """
    if not example.numel():
        return torch.zeros(list(shape), dtype=example.dtype)
    made = example.long() if example.dtype in _COUNTED_AS_INT64 else example
    for dim, size in enumerate(shape):
        old = made.shape[dim]
        if old == size:
            continue
        step = _step(made, dim)
        if step is not None and size > old:
            first = made.narrow(dim, 0, 1)
            across = [1] * made.dim()
            across[dim] = size
            made = first + (step * torch.arange(size, dtype=made.dtype)).reshape(across)
            continue
        start = old - size if dim == made.dim() - 1 and _padded_first(example) else 0
        made = made.index_select(dim, (torch.arange(size) + start) % old)
    return made.to(example.dtype)


def _step(values: torch.Tensor, dim: int) -> int | None:
    """By how much integers count up or down along a dim, the same everywhere; ``None`` where they do not."""
    if values.dtype not in INTEGERS or values.shape[dim] < 3 or not values.numel():
        return None
    steps = values.diff(dim=dim)
    step = int(steps.reshape(-1)[0])
    return step if step and bool((steps == step).all()) else None


def _two_values(values: torch.Tensor) -> bool:
    """Whether there are no more: of a mask of floats one may be the least that the dtype has."""
    if values.is_complex():
        return False
    if values.dtype not in _ORDERED:
        values = values.double()
    return bool(((values == values.min()) | (values == values.max())).all())


def _padded_first(mask: torch.Tensor) -> bool:
    """Whether it is a mask, of which some row hides its first and none its last."""
    if not _two_values(mask):
        return False
    shown = mask.double() > mask.double().min()
    return bool(shown.select(-1, -1).all()) and not bool(shown.select(-1, 0).all())


def _inside(made: torch.Tensor, example: torch.Tensor, resized: Sequence[tuple[int, int]]) -> torch.Tensor:
    """Integers that may be indices, less than every size that they may be indices into.

    Args:
        made: The input at a point.
        example: The input in the example.
        resized: Of every dim of every input its size in the example and at the point.
    """
    if example.dtype not in INTEGERS or not example.numel() or int(example.min()) < 0:
        return made
    largest = int(example.max())
    bound = min((size for before, size in resized if before > largest), default=0)
    return made % bound if 0 < bound <= largest else made


def _in_order(
    made: torch.Tensor, example: torch.Tensor, resized: Sequence[tuple[int, int]], end: int | None
) -> torch.Tensor:
    """A list of integers that goes up as the example's does (offsets, graphs of nodes), or down (sorted lengths).

    One that begins at 0 and ends at a size in the example, without a second such end, has where parts of that dim begin
    and end: then it ends at the size at the point, which is ``end`` where that is known.
    """
    if example.dim() != 1 or example.dtype not in INTEGERS or example.numel() < 2 or not made.numel():
        return made
    steps = example.diff()
    if bool((steps <= 0).all()):
        return made.sort(descending=True).values
    if bool((steps < 0).any()):
        return made
    made = made.sort().values
    if end is None and int(example[0]) == 0 < int(steps[-1]) and int(steps.max()) > 1:  # positions count by one
        end = min((size for before, size in resized if before == int(example[-1])), default=None)
    if end is not None:
        made = made.clamp(max=end)
        made[-1] = end
    return made


def _without_example(dtype: torch.dtype, shape: Sequence[int], generator: torch.Generator, bound: int) -> torch.Tensor:
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(list(shape), generator=generator).to(dtype)
    most = 2 if dtype is torch.bool else min(bound, torch.iinfo(dtype).max + 1, torch.iinfo(torch.int64).max)
    return torch.randint(0, most, list(shape), generator=generator).to(dtype)
