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
from trtdiag.network.layer import Layer, require, require_dtype, require_rank
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
class Pooling(Layer):
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
        require_dtype(x, FLOATS)
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
        """On the padded input; an average is a sum divided by the count of each window."""
        x = inputs[0].float()
        beyond = self._beyond(x.shape[2:])
        nothing = (0,) * len(beyond)
        if self.op is PoolingType.MAX:
            y = padded(x, self.pre_padding, self.post_padding, -torch.inf)
            pool = F.max_pool2d if len(self.window) == 2 else F.max_pool3d
            y = pool(padded(y, nothing, beyond, -torch.inf), self.window, self.stride)
        else:
            values = padded(x, self.pre_padding, self.post_padding)
            y = self._sums(padded(values, nothing, beyond))
            if self.average_count_excludes_padding:
                counted = padded(torch.ones((1, 1, *x.shape[2:])), self.pre_padding, self.post_padding)
                y = y / self._sums(padded(counted, nothing, beyond))
            else:
                y = y / prod(self.window)
        return (y.to(inputs[0].dtype),)

    def _beyond(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """How far the last window reaches over the padded input."""
        if not self._rounds_up:
            return (0,) * len(self.window)
        room = [a + b + c for a, b, c in zip(sizes, self.pre_padding, self.post_padding, strict=True)]
        steps = [-(-(r - w) // s) for r, w, s in zip(room, self.window, self.stride, strict=True)]
        ends = [n * s + w for n, s, w in zip(steps, self.stride, self.window, strict=True)]
        return tuple(max(0, end - r) for end, r in zip(ends, room, strict=True))

    def _sums(self, x: torch.Tensor) -> torch.Tensor:
        pool = F.avg_pool2d if len(self.window) == 2 else F.avg_pool3d
        return pool(x, self.window, self.stride, divisor_override=1)
