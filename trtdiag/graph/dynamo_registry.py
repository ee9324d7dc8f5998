"""The backends of torch.compile by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

REGISTRY = "torch._dynamo.backends.registry"
"""The module that torch.compile imports when it looks for a backend."""


def register_backend(name: str, backend: Callable[..., Any]) -> None:
    """Let ``torch.compile(model, backend=name)`` find a backend; one that is known by the name is replaced."""
    from torch._dynamo.backends import registry

    registry._COMPILER_FNS.pop(name, None)  # noqa: SLF001 - registering twice is an assertion of torch
    registry.register_backend(backend, name=name)
