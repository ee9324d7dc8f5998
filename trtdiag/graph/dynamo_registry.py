"""The backends of torch.compile by name."""

from __future__ import annotations

from importlib.metadata import EntryPoint

REGISTRY = "torch._dynamo.backends.registry"
"""The module that torch.compile imports when it first looks for a backend."""
GROUP = "torch_dynamo_backends"


def offer_backend(name: str, home: str) -> None:
    """Let ``torch.compile(model, backend=name)`` find a backend, as an installed package does by its entry point.

    Args:
        name: What the user writes.
        home: ``module:function``; imported when the backend is first used.
    """
    from torch._dynamo.backends import registry

    registry._BACKENDS[name] = EntryPoint(name, home, GROUP)  # noqa: SLF001 - as torch enters what it discovers
