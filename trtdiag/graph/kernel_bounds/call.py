"""One call of an op that takes sizes or indices on trust, stated by a graph or as it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

Sizes = tuple[int, ...]
SizesOf = Callable[[Any], Sizes | None]
"""The sizes of an argument, where it is a tensor and they are known."""


@dataclass(frozen=True)
class TrustingCall:
    """One call of an op.

    Attributes:
        given: Its arguments by name, those that are left out with their default.
        sizes_of: Says the sizes of one.
    """

    given: Mapping[str, Any]
    sizes_of: SizesOf

    def sizes(self, name: str) -> Sizes | None:
        """The sizes of an argument; ``None`` where it is no tensor, is not given, or they are not known."""
        return self.sizes_of(self.given.get(name))

    def number(self, name: str) -> int | None:
        """A number; ``None`` where it is not known before the call runs."""
        value = self.given.get(name)
        return int(value) if isinstance(value, int) else None

    def numbers(self, name: str) -> list[int] | None:
        """A list of numbers, or the elements of a tensor on the CPU; ``None`` where one is not known."""
        value = self.given.get(name)
        if isinstance(value, torch.Tensor):
            return [int(each) for each in value.reshape(-1).tolist()] if _readable(value) else None
        if isinstance(value, (list, tuple)) and all(isinstance(each, int) for each in value):
            return [int(each) for each in value]
        return None

    def elements(self, name: str) -> torch.Tensor | None:
        """A tensor of whole numbers on the CPU, as the call runs; ``None`` otherwise."""
        value = self.given.get(name)
        return value if isinstance(value, torch.Tensor) and _readable(value) else None


def _readable(value: torch.Tensor) -> bool:
    return value.device.type == "cpu" and not value.dtype.is_floating_point and value.layout == torch.strided


Faults = Iterator[str]
"""Why a call reads or writes beyond its tensors, as clauses; none where it does not, or its sizes are not known."""
Rule = Callable[[TrustingCall], Faults]


def said(sizes: Sizes) -> str:
    """Sizes as one reads them: ``2x3x7``."""
    return "x".join(map(str, sizes)) or "of a number"
