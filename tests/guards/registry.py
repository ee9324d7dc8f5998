"""The registry of live exports: models with the ranges that a practitioner would first try."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from tests.guards.asks import dynamic_shapes
from tests.models.torchvision_ops import declare_missing_ops


@dataclass(frozen=True)
class Live:
    """A model, its example inputs, and ``dynamic_shapes`` with Spans for Dims."""

    model: torch.nn.Module
    args: tuple[Any, ...]
    spec: Any
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """How to make a live export, its family, and what it shows."""

    make: Callable[[], Live]
    family: str
    tags: tuple[str, ...]
    note: str


CASES: dict[str, Case] = {}


def enter(name: str, make: Callable[[], Live], family: str, tags: tuple[str, ...], note: str = "") -> None:
    """Put a case into the registry."""
    if name in CASES:
        raise ValueError(f"two cases are called {name}")
    CASES[name] = Case(make, family, tags, note)


def case(family: str, *tags: str, note: str = "") -> Callable[[Callable[[], Live]], Callable[[], Live]]:
    """Enter the decorated function under its own name."""

    def entered(make: Callable[[], Live]) -> Callable[[], Live]:
        enter(make.__name__, make, family, tags, note)
        return make

    return entered


def build(name: str, seed: int = 0) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any], Any]:
    """One case, ready for torch.export.export, the same on every call."""
    declare_missing_ops()
    torch.manual_seed(seed)
    live = CASES[name].make()
    return live.model.eval(), live.args, live.kwargs, dynamic_shapes(live.spec)
