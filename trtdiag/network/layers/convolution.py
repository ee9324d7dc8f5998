"""Convolution and Deconvolution, of two or three spatial dims as in TensorRT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from trtdiag.network.dtype import FLOATS
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Layer, require, require_dtype, require_equal, require_rank, require_same_dtype
from trtdiag.network.layers.windows import padded, require_output, require_window, window_count
from trtdiag.network.tensor import Tensor
from trtdiag.symbolic import Num, add, mul


@dataclass(frozen=True)
class _Windowed(Layer, inputs=(2, 3)):
    """What both layers have.

    Inputs are x (batch, channels, spatial...), the kernel and, optionally, a bias with one element for each output
    channel.  The kernel's spatial sizes are numbers.
    """

    stride: tuple[int, ...]
    pre_padding: tuple[int, ...]
    post_padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1

    def __post_init__(self) -> None:
        dims = len(self.stride)
        require(dims in (2, 3), f"there are {dims} spatial dims; TensorRT takes 2 or 3")
        require_window(dims, 1, stride=self.stride, dilation=self.dilation)
        require_window(dims, 0, pre_padding=self.pre_padding, post_padding=self.post_padding)
        require(self.groups >= 1, f"groups is {self.groups}")

    def extents(self, inputs: Sequence[Tensor]) -> tuple[int, ...]:
        """The elements that the kernel reaches over in each spatial dim, after checks that both layers need."""
        x, kernel = inputs[:2]
        require_dtype(x, FLOATS)
        require_same_dtype(inputs)
        require_rank(x, (len(self.stride) + 2,))
        require_rank(kernel, (x.rank,), "the kernel")
        sizes = [size.value for size in kernel.shape[2:] if isinstance(size, Num)]
        require(len(sizes) == len(self.stride), "the kernel's spatial sizes are no numbers")
        return tuple(dilation * (int(size) - 1) + 1 for dilation, size in zip(self.dilation, sizes, strict=True))


@dataclass(frozen=True)
class Convolution(_Windowed):
    """Cross-correlation; the kernel is (out channels, channels / groups, spatial...)."""

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """Batch, the kernel's first dim, and as many elements as windows fit."""
        x, kernel = inputs[:2]
        extents = self.extents(inputs)
        require_equal(facts, x.shape[1], mul(self.groups, kernel.shape[1]), "channels of input and kernel")
        _require_groups(kernel, self.groups)
        if len(inputs) == 3:
            require_rank(inputs[2], (1,), "the bias")
            require_equal(facts, inputs[2].shape[0], kernel.shape[0], "bias and output channels")
        paddings = [a + b for a, b in zip(self.pre_padding, self.post_padding, strict=True)]
        spatial = tuple(
            window_count(size, padding=padding, extent=extent, stride=stride)
            for size, padding, extent, stride in zip(x.shape[2:], paddings, extents, self.stride, strict=True)
        )
        require_output(spatial, facts)
        return (Tensor(x.dtype, (x.shape[0], kernel.shape[0], *spatial)),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """On the padded input, since PyTorch pads both ends alike; it refuses what no window fits into."""
        convolve = F.conv2d if len(self.stride) == 2 else F.conv3d
        x = padded(inputs[0], self.pre_padding, self.post_padding)
        windows = zip(x.shape[2:], inputs[1].shape[2:], self.dilation, self.stride, strict=True)
        counts = [(size - dilation * (taps - 1) - 1) // stride + 1 for size, taps, dilation, stride in windows]
        if 0 in counts:
            return (x.new_empty(x.shape[0], inputs[1].shape[0], *counts),)
        bias = inputs[2] if len(inputs) == 3 else None
        return (convolve(x, inputs[1], bias, self.stride, 0, self.dilation, self.groups),)


@dataclass(frozen=True)
class Deconvolution(_Windowed):
    """The transposed convolution; the kernel is (channels, out channels / groups, spatial...).

    The paddings are cut off the full result at both ends.
    """

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """Batch, the kernel's second dim for each group, and the elements that the windows cover."""
        x, kernel = inputs[:2]
        extents = self.extents(inputs)
        require_equal(facts, x.shape[1], kernel.shape[0], "channels of input and kernel")
        _require_groups(kernel, self.groups)
        channels = mul(self.groups, kernel.shape[1])
        if len(inputs) == 3:
            require_rank(inputs[2], (1,), "the bias")
            require_equal(facts, inputs[2].shape[0], channels, "bias and output channels")
        paddings = [a + b for a, b in zip(self.pre_padding, self.post_padding, strict=True)]
        spatial = tuple(
            add(mul(stride, size), extent - stride - padding)
            for size, padding, extent, stride in zip(x.shape[2:], paddings, extents, self.stride, strict=True)
        )
        require_output(spatial, facts)
        return (Tensor(x.dtype, (x.shape[0], channels, *spatial)),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The full result, cut."""
        transposed = F.conv_transpose2d if len(self.stride) == 2 else F.conv_transpose3d
        bias = inputs[2] if len(inputs) == 3 else None
        full = transposed(inputs[0], inputs[1], bias, self.stride, 0, 0, self.groups, self.dilation)
        for axis, (before, after) in enumerate(zip(self.pre_padding, self.post_padding, strict=True), start=2):
            full = full.narrow(axis, before, full.shape[axis] - before - after)
        return (full.contiguous(),)


def _require_groups(kernel: Tensor, groups: int) -> None:
    channels = kernel.shape[0]
    divides = groups == 1 or (isinstance(channels, Num) and channels.value % groups == 0)
    require(divides, f"{groups} groups do not divide the kernel's first dim")
