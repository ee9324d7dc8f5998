"""Inputs of given sizes, made from the example's so that their values stay plausible."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from trtdiag.capture.program import InputTensor
from trtdiag.symbolic import evaluate

SEED = 20240229
"""So that two runs compare the same values."""

_INTEGERS = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8})


class InputMaker:
    """Makes flat user inputs at points.

    Floats are normal with the example's mean and deviation; integers and bools repeat the example's values in shuffled
    order, since an index that the example has is one that the program takes; where all rows of the example begin or end
    alike, so do these.  Where they may be indices into a dim,
    being less than its size in the example, they stay less than its size at the point.

    Args:
        inputs: The user's inputs in order.
        example: Flat example values in the same order; ``None`` where the program has none.
        indices: Placeholders that may be indices: a mask of ones, less than every size, would be all zeros where a
            batch is 1.  All where it is not given.
    """

    def __init__(
        self,
        inputs: Sequence[InputTensor],
        example: Sequence[Any] | None,
        indices: Collection[str] | None = None,
    ) -> None:
        self._inputs, self._indices = inputs, indices
        self._example = example if example is not None and len(example) == len(inputs) else None

    def at(self, sizes: Mapping[str, int]) -> list[Any]:
        """The inputs at a point: symbol -> size."""
        generator = torch.Generator().manual_seed(SEED)
        shapes = [[self._size(dim.expr, sizes, dim.hint) for dim in tensor.dims] for tensor in self._inputs]
        examples = self._example or [None] * len(self._inputs)
        resized = [
            pair
            for example, shape in zip(examples, shapes, strict=True)
            if isinstance(example, torch.Tensor)
            for pair in zip(example.shape, shape, strict=True)
        ]
        return [
            self._one(example, tensor, shape, resized, generator)
            for example, tensor, shape in zip(examples, self._inputs, shapes, strict=True)
        ]

    def _one(
        self,
        example: Any,
        tensor: InputTensor,
        shape: Sequence[int],
        resized: Sequence[tuple[int, int]],
        generator: torch.Generator,
    ) -> Any:
        if tensor.dtype is None:  # a plain number, which the program was exported for
            return example
        if not isinstance(example, torch.Tensor):
            return _without_example(tensor.dtype, shape, generator)
        here = example.detach().cpu()
        made = _like(here, shape, generator)
        if self._indices is None or tensor.placeholder in self._indices:
            made = _inside(made, here, resized)
        return made.to(example.device)

    def _size(self, expr: Any, sizes: Mapping[str, int], hint: int | None) -> int:
        try:
            return int(evaluate(expr, sizes))
        except KeyError:
            return 1 if hint is None else hint


def _like(example: torch.Tensor, shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    count = torch.Size(shape).numel()
    if example.dtype.is_floating_point and example.numel():
        values = example.float()
        finite = values[torch.isfinite(values)]
        if finite.numel() == values.numel() and float(finite.std(correction=0)) > 0:
            made = torch.randn(shape, generator=generator) * finite.std(correction=0) + finite.mean()
            low, high = float(finite.min()), float(finite.max())
            # Values of one sign (probabilities, masks, sizes) keep it.
            return made.clamp(low if low >= 0 else -math.inf, high if high <= 0 else math.inf).to(example.dtype)
    if not example.numel():
        return torch.zeros(list(shape), dtype=example.dtype)
    flat = example.reshape(-1)
    order = torch.randint(0, flat.numel(), (count,), generator=generator)
    return _with_ends(flat[order].reshape(list(shape)), example)


def _with_ends(made: torch.Tensor, example: torch.Tensor) -> torch.Tensor:
    """The first of each row, or else the last, as in the example where all of its rows have the same there.

    Of a mask that is the side without padding: a row that masks all it has is no example of anything, and what
    attention gives for it differs among PyTorch's own kernels.
    """
    if not made.numel() or made.dim() != example.dim() or not made.dim():
        return made
    for place in (0, -1):
        ends = example.select(-1, place).reshape(-1)
        if bool((ends == ends[0]).all()):
            made.select(-1, place).fill_(ends[0].item())
            break
    return made


def _inside(made: torch.Tensor, example: torch.Tensor, resized: Sequence[tuple[int, int]]) -> torch.Tensor:
    """Integers that may be indices, less than every size that they may be indices into.

    Args:
        made: The input at a point.
        example: The input in the example.
        resized: Of every dim of every input its size in the example and at the point.
    """
    if example.dtype not in _INTEGERS or not example.numel() or int(example.min()) < 0:
        return made
    largest = int(example.max())
    bound = min((size for before, size in resized if before > largest), default=0)
    return made % bound if 0 < bound <= largest else made


def _without_example(dtype: torch.dtype, shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(list(shape), generator=generator).to(dtype)
    return torch.randint(0, 2, list(shape), generator=generator).to(dtype)
