"""Ranges that a user asks for, and example tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.export import Dim


@dataclass(frozen=True)
class Span:
    """A named range as a user would first write it; the same name is the same ``Dim``."""

    name: str
    low: int = 2
    high: int = 4096


BATCH = Span("b", 1, 64)


def sizes(low: int = 2, high: int = 4096) -> dict[int, Span]:
    """Height and width of an image."""
    return {2: Span("h", low, high), 3: Span("w", low, high)}


def noise(batch: int, channels: int, height: int, width: int) -> torch.Tensor:
    """Random images."""
    return torch.randn(batch, channels, height, width)


def tokens(batch: int, length: int, vocabulary: int = 64) -> torch.Tensor:
    """Random token ids; the first three are left to special tokens."""
    return torch.randint(3, vocabulary, (batch, length))


def dynamic_shapes(spec: Any) -> Any:
    """The spec with each Span as a ``Dim``, in the form that torch.export takes."""
    dims: dict[str, Dim] = {}

    def made(spec: Any) -> Any:
        if isinstance(spec, Span):
            return dims.setdefault(spec.name, Dim(spec.name, min=spec.low, max=spec.high))
        if isinstance(spec, dict):
            return {key: made(value) for key, value in spec.items()}
        if isinstance(spec, (tuple, list)):
            return type(spec)(made(value) for value in spec)
        return spec

    return made(spec)
