"""The registry of the zoo: real architectures at real depth and small width, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from tests.models.initialization import initialize
from tests.models.torchvision_ops import declare_missing_ops

# Ready for torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes).
Ask: TypeAlias = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any], Any]
Builder: TypeAlias = Callable[[], Ask]

# What some builders import; a model whose library is missing is skipped by name.
LIBRARIES = frozenset(
    {"torchvision", "timm", "transformers", "diffusers", "segmentation_models_pytorch", "torch_geometric", "scipy"}
)
ZOO: dict[str, tuple[str, Builder]] = {}


def zoo(family: str, name: str | None = None) -> Callable[[Builder], Builder]:
    """Enter a builder under ``name``, or under its own name."""

    def enter(builder: Builder) -> Builder:
        key = name or builder.__name__
        if key in ZOO:
            raise ValueError(f"two models are called {key}")
        ZOO[key] = (family, builder)
        return builder

    return enter


def build(name: str, seed: int = 0) -> Ask:
    """One model of the zoo with its example inputs, the same on every call.

    Raises:
        ModuleNotFoundError: Its library, one of LIBRARIES, is not installed.
    """
    declare_missing_ops()
    torch.manual_seed(seed)
    ask = ZOO[name][1]()
    initialize(name, *ask[:3], seed=seed)
    return ask
