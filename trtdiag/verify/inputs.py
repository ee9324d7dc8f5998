"""Inputs of given sizes, made from the example's so that their values stay plausible."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from trtdiag.capture.program import InputTensor
from trtdiag.symbolic import evaluate

SEED = 20240229
"""So that two runs compare the same values."""


class InputMaker:
    """Makes flat user inputs at points.

    Floats are normal with the example's mean and deviation; integers and bools repeat the example's values in shuffled
    order, since an index that the example has is one that the program takes.

    Args:
        inputs: The user's inputs in order.
        example: Flat example values in the same order; ``None`` where the program has none.
    """

    def __init__(self, inputs: Sequence[InputTensor], example: Sequence[Any] | None) -> None:
        self._inputs = inputs
        self._example = example if example is not None and len(example) == len(inputs) else None

    def at(self, sizes: Mapping[str, int]) -> list[Any]:
        """The inputs at a point: symbol -> size."""
        generator = torch.Generator().manual_seed(SEED)
        return [self._one(index, tensor, sizes, generator) for index, tensor in enumerate(self._inputs)]

    def _one(self, index: int, tensor: InputTensor, sizes: Mapping[str, int], generator: torch.Generator) -> Any:
        example = self._example[index] if self._example is not None else None
        if tensor.dtype is None:  # a plain number, which the program was exported for
            return example
        shape = [self._size(dim.expr, sizes, dim.hint) for dim in tensor.dims]
        if isinstance(example, torch.Tensor):
            return _like(example.detach().cpu(), shape, generator).to(example.device)
        return _without_example(tensor.dtype, shape, generator)

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
    return flat[order].reshape(list(shape))


def _without_example(dtype: torch.dtype, shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(list(shape), generator=generator).to(dtype)
    return torch.randint(0, 2, list(shape), generator=generator).to(dtype)
