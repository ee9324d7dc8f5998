"""Convolution and Deconvolution, of two or three spatial dims as in TensorRT."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from trtdiag.network.dtype import FLOATS
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Layer, require, require_equal, require_rank, require_same_dtype
from trtdiag.network.layers.windows import padded, require_output, require_window, window_count
from trtdiag.network.tensor import Tensor
from trtdiag.symbolic import Expr, Num, add, mul


@dataclass(frozen=True)
class _Windowed(Layer, inputs=(2, 3), takes=FLOATS):
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

    @abstractmethod
    def channels(self, kernel: Tensor) -> tuple[Expr, Expr]:
        """The channels that a kernel takes, and those that it gives."""

    @abstractmethod
    def spatial_size(self, size: Expr, padding: int, extent: int, stride: int) -> Expr:
        """Elements of the output along a dim of so many, where the kernel reaches over ``extent`` elements."""

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """Batch, the channels that the kernel gives, and the elements that its windows make."""
        x, kernel = inputs[:2]
        require_same_dtype(inputs)
        require_rank(x, (len(self.stride) + 2,))
        require_rank(kernel, (x.rank,), "the kernel")
        sizes = [int(size.value) for size in kernel.shape[2:] if isinstance(size, Num)]
        require(len(sizes) == len(self.stride), "the kernel's spatial sizes are no numbers")
        taken, given = self.channels(kernel)
        require_equal(facts, x.shape[1], taken, "channels of input and kernel")
        first = kernel.shape[0]
        divides = self.groups == 1 or (isinstance(first, Num) and first.value % self.groups == 0)
        require(divides, f"{self.groups} groups do not divide the kernel's first dim")
        if len(inputs) == 3:
            require_rank(inputs[2], (1,), "the bias")
            require_equal(facts, inputs[2].shape[0], given, "bias and output channels")
        extents = [dilation * (size - 1) + 1 for dilation, size in zip(self.dilation, sizes, strict=True)]
        paddings = [a + b for a, b in zip(self.pre_padding, self.post_padding, strict=True)]
        windows = zip(x.shape[2:], paddings, extents, self.stride, strict=True)
        spatial = tuple(self.spatial_size(*window) for window in windows)
        require_output(spatial, facts)
        return (Tensor(x.dtype, (x.shape[0], given, *spatial)),)


@dataclass(frozen=True)
class Convolution(_Windowed):
    """Cross-correlation; the kernel is (out channels, channels / groups, spatial...)."""

    def channels(self, kernel: Tensor) -> tuple[Expr, Expr]:
        """Those of all groups, and the kernel's first dim."""
        return mul(self.groups, kernel.shape[1]), kernel.shape[0]

    def spatial_size(self, size: Expr, padding: int, extent: int, stride: int) -> Expr:
        """As many as windows fit."""
        return window_count(size, padding=padding, extent=extent, stride=stride)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """On a padded copy where its ends are padded apart, since PyTorch pads both alike, which takes no copy.

        PyTorch refuses what no window fits into.
        """
        convolve = F.conv2d if len(self.stride) == 2 else F.conv3d
        alike = self.pre_padding == self.post_padding
        x = inputs[0] if alike else padded(inputs[0], self.pre_padding, self.post_padding)
        padding = self.pre_padding if alike else (0,) * len(self.stride)
        windows = zip(x.shape[2:], padding, inputs[1].shape[2:], self.dilation, self.stride, strict=True)
        counts = [
            (size + 2 * pad - dilation * (taps - 1) - 1) // stride + 1 for size, pad, taps, dilation, stride in windows
        ]
        if 0 in counts:
            return (x.new_empty(x.shape[0], inputs[1].shape[0], *counts),)
        bias = inputs[2] if len(inputs) == 3 else None
        return (convolve(x, inputs[1], bias, self.stride, padding, self.dilation, self.groups),)


@dataclass(frozen=True)
class Deconvolution(_Windowed):
    """The transposed convolution; the kernel is (channels, out channels / groups, spatial...).

    The paddings are cut off the full result at both ends.
    """

    def channels(self, kernel: Tensor) -> tuple[Expr, Expr]:
        """The kernel's first dim, and its second for each group."""
        return kernel.shape[0], mul(self.groups, kernel.shape[1])

    def spatial_size(self, size: Expr, padding: int, extent: int, stride: int) -> Expr:
        """As many as the windows cover."""
        return add(mul(stride, size), extent - stride - padding)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The full result, cut."""
        transposed = F.conv_transpose2d if len(self.stride) == 2 else F.conv_transpose3d
        bias = inputs[2] if len(inputs) == 3 else None
        full = transposed(inputs[0], inputs[1], bias, self.stride, 0, 0, self.groups, self.dilation)
        for axis, (before, after) in enumerate(zip(self.pre_padding, self.post_padding, strict=True), start=2):
            full = full.narrow(axis, before, full.shape[axis] - before - after)
        return (full.contiguous(),)
