"""What users ask of a model: dims with ranges, example inputs, and modules wrapped to take plain tensors.

A Dim named ``_x`` under ``k * _x`` stands for a size that is a multiple of k.  The dims ask for the widest range a
user would want; some models refuse it, which is what they are here for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.export import Dim

from tests.models.registry import Ask

BATCH = Dim("batch", min=1, max=32)
SEQ = Dim("seq", min=2, max=256)  # text tokens
TARGET = Dim("tgt", min=2, max=128)  # decoder tokens
PAST = Dim("past", min=1, max=254)  # length of the key-value cache
H, W = Dim("h", min=64, max=512), Dim("w", min=64, max=512)
H32, W32 = 32 * Dim("_h", min=2, max=16), 32 * Dim("_w", min=2, max=16)
H8, W8 = 8 * Dim("_h8", min=2, max=16), 8 * Dim("_w8", min=2, max=16)
AUDIO = 160 * Dim("_frames", min=20, max=3000)  # samples
MEL = 8 * Dim("_mel", min=4, max=375)  # frames of a mel spectrogram

BATCH_SEQ = {0: BATCH, 1: SEQ}
BATCH_HW = {0: BATCH, 2: H, 3: W}
BATCH_HW32 = {0: BATCH, 2: H32, 3: W32}


class Positional(nn.Module):
    """``forward(*args) = call(module, *args)``: keeps a library's outputs and keywords out of the signature."""

    def __init__(self, m: nn.Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.m, self.call = m, call

    def forward(self, *args: Any) -> Any:
        return self.call(self.m, *args)


def positional(m: nn.Module, call: Callable[..., Any], *inputs: tuple[Any, dict[int, Any] | None]) -> Ask:
    """A wrapped module with one (tensor, dims) pair for each positional input."""
    tensors, dims = zip(*inputs, strict=True)
    return Positional(m, call).eval(), tensors, {}, (dims,)


def single(m: nn.Module, x: torch.Tensor, dims: dict[int, Any]) -> Ask:
    """A module of one input."""
    return m.eval(), (x,), {}, (dims,)


def transformers_model(model: str, config: Any, **options: Any) -> nn.Module:
    """A model of transformers by class name, from a configuration or its class name and options."""
    import transformers

    configured = getattr(transformers, config)(**options) if isinstance(config, str) else config
    return getattr(transformers, model)(configured).eval()


def torchvision_model(path: str) -> Callable[..., nn.Module]:
    """The constructor at ``torchvision.models.<path>``."""
    import torchvision

    return functools.reduce(getattr, path.split("."), torchvision.models)


def diffusers_model(model: str, **options: Any) -> nn.Module:
    """A model of diffusers by class name."""
    import diffusers

    return getattr(diffusers, model)(**options).eval()


def tokens(batch: int = 2, length: int = 24, vocabulary: int = 1000) -> torch.Tensor:
    """Random token ids; the first five are left to special tokens."""
    return torch.randint(5, vocabulary, (batch, length))


def padding_mask(batch: int = 2, length: int = 24) -> torch.Tensor:
    """Ones, but for three padded places in the first row."""
    kept = torch.ones(batch, length, dtype=torch.int64)
    kept[0, -3:] = 0
    return kept


def image(height: int = 224, width: int = 224, batch: int = 2, channels: int = 3) -> torch.Tensor:
    """Random images."""
    return torch.rand(batch, channels, height, width)
