"""What an op does that turns floats into numbers of few bits with a scale, or back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch


class Step(Enum):
    """What an op does of the way to few bits and back."""

    QUANTIZE = "quantize"
    DEQUANTIZE = "dequantize"
    BOTH = "both"


class Grain(Enum):
    """What shares a scale: a whole tensor, each element of one dim, each block of the last dim, or something else."""

    TENSOR = "tensor"
    CHANNEL = "channel"
    BLOCK = "block"
    OTHER = "other"


@dataclass(frozen=True)
class Quantizer:
    """``clamp(round(x / scale) + zero_point, least, greatest)``, ``(q - zero_point) * scale``, or both.

    Attributes:
        step: Which of them.
        grain: What shares a scale.
        scale: A number, or the argument that holds scales (a node of the graph, or what stands for it).
        zero_point: Just so; ``None`` where there is none, which is 0.
        least: Of the quantized numbers.
        greatest: Of the quantized numbers.
        dtype: The torch dtype that holds them.
        out_dtype: What dequantizing yields; ``None``: the dtype of what was quantized, or float32.
        axis: Of ``Grain.CHANNEL``, counted as the op counts it.
        block: Of ``Grain.BLOCK``, elements that share a scale.
        bound: Where ``scale`` is the greatest magnitude in the place of a scale, the number that it becomes; else 1.
    """

    step: Step
    grain: Grain
    scale: Any
    zero_point: Any
    least: float
    greatest: float
    dtype: torch.dtype
    out_dtype: torch.dtype | None = None
    axis: int = 0
    block: int = 0
    bound: float = 1.0

    @property
    def is_float8(self) -> bool:
        """Whether the numbers are those of float8_e4m3fn, which are rounded to digits and not to integers."""
        return self.dtype is torch.float8_e4m3fn

    @property
    def bits(self) -> int:
        """How many bits the numbers need: 4 where they are integers of -8 to 7."""
        return 4 if not self.is_float8 and self.least >= -8 and self.greatest <= 7 else self.dtype.itemsize * 8


def is_symmetric(quantizer: Quantizer) -> bool:
    """Whether 0 stands for 0 everywhere; zero points that are not known are none of 0."""
    zero = quantizer.zero_point
    if zero is None:
        return True
    if isinstance(zero, torch.Tensor):
        return not bool(zero.any())
    return isinstance(zero, (int, float)) and zero == 0


def scales_of(quantizer: Quantizer) -> torch.Tensor | None:
    """Return the scales in float64, without dims where there is one; ``None`` where they are data or useless.

    Useless are scales that are 0, negative or not finite: what they make of a tensor is PyTorch's business.
    """
    scale = quantizer.scale
    if not isinstance(scale, (int, float, torch.Tensor)):
        return None
    scales = torch.as_tensor(scale).detach().to("cpu", torch.float64) / quantizer.bound
    scales = scales.reshape(()) if quantizer.grain is Grain.TENSOR and scales.numel() == 1 else scales
    return scales if scales.numel() and bool((torch.isfinite(scales) & (scales > 0)).all()) else None
