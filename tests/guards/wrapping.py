"""Library models wrapped to take positional tensors and to return one tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def transformers_quiet() -> Any:
    """The transformers package, without its advice about random weights."""
    import transformers

    transformers.logging.set_verbosity_error()
    return transformers


class FirstTensor(nn.Module):
    """A model of transformers: named inputs from positional ones, the first tensor of its output."""

    def __init__(self, m: nn.Module, names: tuple[str, ...], **fixed: Any) -> None:
        super().__init__()
        self.m, self.names, self.fixed = m, names, fixed

    def forward(self, a: torch.Tensor, b: torch.Tensor | None = None, c: torch.Tensor | None = None) -> torch.Tensor:
        named = {n: v for n, v in zip(self.names, (a, b, c), strict=False) if v is not None}
        output = self.m(**named, **self.fixed, return_dict=True)
        return next(value for value in output.values() if isinstance(value, torch.Tensor))


class Listed(nn.Module):
    """A model of torchvision whose output dict becomes a list."""

    def __init__(self, m: nn.Module) -> None:
        super().__init__()
        self.m = m

    def forward(self, x: torch.Tensor) -> Any:
        y = self.m(x)
        return list(y.values()) if isinstance(y, dict) else y
