"""Pooling, of two or three spatial dims as in TensorRT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod

import torch
import torch.nn.functional as F

from trtdiag.network.dtype import FLOATS
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Layer, require, require_rank
from trtdiag.network.layers.windows import padded, require_output, require_window, window_count
from trtdiag.network.tensor import Tensor


class PoolingType(Enum):
    """What is taken of a window."""

    MAX = "max"
    AVERAGE = "average"


class PaddingMode(Enum):
    """What happens to elements at the end that fill no whole window."""

    EXPLICIT_ROUND_DOWN = "left out"
    EXPLICIT_ROUND_UP = "in a window that reaches over the end"


@dataclass(frozen=True)
class Pooling(Layer, takes=FLOATS):
    """The greatest element or the average of each window.

    With EXPLICIT_ROUND_UP every element is in a window, also where only padding is left for the last one.

    Attributes:
        op: MAX or AVERAGE.
        window: Elements of a window.
        stride: From one window to the next.
        pre_padding: Elements before the first; they are never the greatest.
        post_padding: Elements after the last.
        padding_mode: See above.
        average_count_excludes_padding: Divide by the input's elements in the window; otherwise by all elements of the
            window, also by those beyond the padding (EXPLICIT_ROUND_UP).  Source: seen on TensorRT 8.6.0, H200.
    """

    op: PoolingType
    window: tuple[int, ...]
    stride: tuple[int, ...]
    pre_padding: tuple[int, ...]
    post_padding: tuple[int, ...]
    padding_mode: PaddingMode = PaddingMode.EXPLICIT_ROUND_DOWN
    average_count_excludes_padding: bool = True

    def __post_init__(self) -> None:
        dims = len(self.window)
        require(dims in (2, 3), f"there are {dims} spatial dims; TensorRT takes 2 or 3")
        require_window(dims, 1, window=self.window, stride=self.stride)
        require_window(dims, 0, pre_padding=self.pre_padding, post_padding=self.post_padding)
        for name, padding in (("pre_padding", self.pre_padding), ("post_padding", self.post_padding)):
            less = all(number < size for number, size in zip(padding, self.window, strict=True))
            require(less, f"{name} {padding} is not less than the window {self.window}")

    @property
    def _rounds_up(self) -> bool:
        return self.padding_mode is PaddingMode.EXPLICIT_ROUND_UP

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """Batch, channels, and as many elements as windows."""
        x = inputs[0]
        require_rank(x, (len(self.window) + 2,))
        spatial = tuple(
            window_count(size, padding=before + after, extent=extent, stride=stride, round_up=self._rounds_up)
            for size, before, after, extent, stride in zip(
                x.shape[2:], self.pre_padding, self.post_padding, self.window, self.stride, strict=True
            )
        )
        require_output(spatial, facts)
        return (Tensor(x.dtype, (*x.shape[:2], *spatial)),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """On the input, padded as far as the last window reaches; an average is a sum by the count of each window."""
        x = inputs[0].float()
        ends = zip(x.shape[2:], self.pre_padding, self.post_padding, self.window, self.stride, strict=True)
        after = [b + ((w - size - a - b) % s if self._rounds_up else 0) for size, a, b, w, s in ends]
        if self.op is PoolingType.MAX:
            pool = F.max_pool2d if len(self.window) == 2 else F.max_pool3d
            y = pool(padded(x, self.pre_padding, after, -torch.inf), self.window, self.stride)
        else:
            y = self._sums(padded(x, self.pre_padding, after))
            counted = torch.tensor(float(prod(self.window)))
            if self.average_count_excludes_padding:
                counted = self._sums(padded(torch.ones((1, 1, *x.shape[2:])), self.pre_padding, after))
            y = y / counted
        return (y.to(inputs[0].dtype),)

    def _sums(self, x: torch.Tensor) -> torch.Tensor:
        pool = F.avg_pool2d if len(self.window) == 2 else F.avg_pool3d
        return pool(x, self.window, self.stride, divisor_override=1)
