"""How much the outputs of a model move when its inputs are others of the same kind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from tests.models.registry import Ask
from trtdiag.verification.compare import FLOAT32, compare

SEED = 5
"""For models that draw random numbers themselves."""
OTHERS_SEED = 20240229
"""For the other inputs."""


@dataclass(frozen=True)
class Response:
    """How far one output moved.

    Attributes:
        tolerances: Its largest difference, in units of what verification would allow: infinite where the shape is
            another, or where a number is that is not to differ at all.
        share: The part of its elements that differ by more than is allowed.
    """

    tolerances: float
    share: float


class Responses:
    """A model with its example, and with other inputs of the same shapes and of values that the example has.

    Args:
        ask: The model.
    """

    def __init__(self, ask: Ask) -> None:
        self._module = ask[0]
        self._given, self._tree = tree_flatten((ask[1], ask[2]))
        generator = torch.Generator().manual_seed(OTHERS_SEED)
        self._others = [_other(value, generator) for value in self._given]
        self._before = self._outputs(self._given)

    @property
    def changed(self) -> list[int]:
        """Which inputs are others; a mask of ones and a single time step stay as they are."""
        pairs = enumerate(zip(self._given, self._others, strict=True))
        return [k for k, (a, b) in pairs if isinstance(a, torch.Tensor) and not torch.equal(a, b)]

    def to_all(self) -> list[Response]:
        """Of each output, when all inputs are others."""
        return self._responses(self._others)

    def to_one(self, index: int) -> list[Response]:
        """Of each output, when one input is another."""
        return self._responses([*self._given[:index], self._others[index], *self._given[index + 1 :]])

    def _responses(self, inputs: Sequence[Any]) -> list[Response]:
        return [_response(a, b) for a, b in zip(self._before, self._outputs(inputs), strict=True)]

    def _outputs(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        args, kwargs = tree_unflatten(list(inputs), self._tree)
        torch.manual_seed(SEED)
        with torch.no_grad():
            found = tree_leaves(self._module(*args, **kwargs))
        # A state that is written in place and given back must not be the same tensor in both runs.
        return [value.clone() for value in found if isinstance(value, torch.Tensor)]


def _other(value: Any, generator: torch.Generator) -> Any:
    """Floats with the same mean and deviation, of one sign where the example's are; else its values in another order.

    Where all rows begin alike, or end alike, the others do: of a mask that is the side without padding.
    """
    if not isinstance(value, torch.Tensor) or not value.numel():
        return value
    if value.dtype.is_floating_point and bool(torch.isfinite(value).all()) and float(value.std(correction=0)) > 0:
        made = torch.randn(value.shape, generator=generator) * value.std(correction=0) + value.mean()
        low, high = float(value.min()), float(value.max())
        return made.clamp(low if low >= 0 else -math.inf, high if high <= 0 else math.inf).to(value.dtype)
    flat = value.reshape(-1)
    made = flat[torch.randint(0, flat.numel(), (value.numel(),), generator=generator)].reshape(value.shape)
    for place in (0, -1) if value.dim() else ():
        ends = value.select(-1, place).reshape(-1)
        if bool((ends == ends[0]).all()):
            made.select(-1, place).fill_(ends[0].item())
            break
    return made


def _response(before: torch.Tensor, after: torch.Tensor) -> Response:
    if before.shape != after.shape:
        return Response(float("inf"), 1.0)
    found = compare("", before, after, FLOAT32)
    if not found.allowed:
        return Response(float("inf") if found.max_abs else 0.0, float((before != after).double().mean()))
    over = (before.double() - after.double()).abs() > found.allowed
    return Response(found.max_abs / found.allowed, float(over.double().mean()))
