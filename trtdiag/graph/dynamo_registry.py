"""The backends of torch.compile by name."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

GROUP = "torch_dynamo_backends"


def offer_backend(name: str, home: str) -> None:
    """Let ``torch.compile(model, backend=name)`` find a backend, as an installed package does by its entry point.

    It is registered at once, and its module imported when it is first called: torch registers an entry point when it is
    first looked up, and of two threads that look at once the second fails with ``duplicate name`` (torch 2.11 to 2.13).

    Args:
        name: What the user writes.
        home: ``module:function``.
    """
    from torch._dynamo.backends import registry

    if registry._BACKENDS.get(name) is not None:  # noqa: SLF001 - torch has no public way to ask
        return  # torch found the installed package, may be importing it in this moment, and registers it then

    def compile_graph(*args: Any, **kwargs: Any) -> Any:
        return EntryPoint(name, home, GROUP).load()(*args, **kwargs)

    registry.register_backend(compile_graph, name=name)
