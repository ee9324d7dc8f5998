"""``Input``: the sizes that an input of a module may have, for exports that trtdiag makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from trtdiag.arguments import checked, optional, whole, wrong
from trtdiag.errors import ArgumentError

Shape = Sequence[int]


def _sizes(name: str, value: Any) -> tuple[int, ...]:
    """A shape; ``torch.Size`` is one, a number or a tensor is none."""
    if not isinstance(value, (tuple, list)):
        raise wrong(name, value, "a tuple of sizes, for example (1, 3, 224, 224)", "wrong-argument")
    return tuple(whole(0)(f"{name}[{index}]", size) for index, size in enumerate(value))


def _dtype(name: str, value: Any) -> torch.dtype:
    if not isinstance(value, torch.dtype):
        raise wrong(name, value, "a torch.dtype, for example torch.float16", "wrong-argument")
    return value


@dataclass(frozen=True, init=False, repr=False)
class Input:
    """The sizes of one input: ``Input((1, 3, 224, 224))``, or ``Input(min=..., opt=..., max=...)``.

    A dim whose sizes differ between ``min`` and ``max`` is dynamic; all others are fixed.

    Args:
        shape: The sizes where all are fixed; the least ones where ``max`` is given, too.
        opt: The sizes that engines are tuned for; ``max`` where not given.
        max: The greatest sizes.
        dtype: Of the elements.
        min: Another way to give the least sizes.

    Attributes:
        min: The least sizes, a tuple.
        opt: The sizes that engines are tuned for.
        max: The greatest sizes.
        dtype: Of the elements.

    Raises:
        UserError: ``wrong-argument``, ``wrong-option``: no sizes, or ``min <= opt <= max`` does not hold.
    """

    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]
    dtype: torch.dtype

    @checked(shape=optional(_sizes), opt=optional(_sizes), max=optional(_sizes), dtype=_dtype, min=optional(_sizes))
    def __init__(
        self,
        shape: Shape | None = None,
        opt: Shape | None = None,
        max: Shape | None = None,
        dtype: torch.dtype = torch.float32,
        *,
        min: Shape | None = None,
    ) -> None:
        least = shape if min is None else min
        if least is None or (shape is not None and min is not None):
            both = "shape and min are both given" if least is not None else "neither shape nor min is given"
            raise _no_shape(both)
        if max is None and (min is not None or opt is not None):
            raise _no_shape("max is not given")
        most = least if max is None else max
        usual = most if opt is None else opt
        _check_order(tuple(least), tuple(usual), tuple(most))
        for name, value in (("min", tuple(least)), ("opt", tuple(usual)), ("max", tuple(most)), ("dtype", dtype)):
            object.__setattr__(self, name, value)

    @property
    def is_fixed(self) -> bool:
        """Whether it has one shape only."""
        return self.min == self.max

    def __repr__(self) -> str:
        shapes = f"{self.min}" if self.is_fixed else f"min={self.min}, opt={self.opt}, max={self.max}"
        return f"Input({shapes}, dtype={self.dtype})"


def _no_shape(why: str) -> ArgumentError:
    return ArgumentError(
        "an Input needs its sizes",
        because=why,
        fix="write Input((1, 3, 224, 224)), or Input(min=(1, 3, 224, 224), opt=(4, 3, 224, 224), max=(8, 3, 224, 224))",
        reference="wrong-argument",
    )


def _check_order(least: tuple[int, ...], usual: tuple[int, ...], most: tuple[int, ...]) -> None:
    if not len(least) == len(usual) == len(most):
        raise ArgumentError(
            "the shapes of an Input have different numbers of dims",
            because=f"min has {len(least)}, opt {len(usual)}, max {len(most)}",
            fix="write each dim in all of them; a fixed one has the same size in each",
            reference="wrong-argument",
        )
    for index, (low, size, high) in enumerate(zip(least, usual, most, strict=True)):
        if not low <= size <= high:
            raise ArgumentError(
                f"dim {index} of an Input has no order: min {low}, opt {size}, max {high}",
                because="a size is at least min, at most max, and opt is between them",
                fix="write min <= opt <= max for each dim",
                reference="wrong-argument",
            )
