"""Channels and pixels rearranged: pixel_shuffle, channel_shuffle, im2col and its sum back."""

from __future__ import annotations

import torch

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.index_grids import index_grid
from trtdiag.convert.layer_writers.transposed_convolution import deconvolved
from trtdiag.convert.refusal import refuse
from trtdiag.convert.registry import converter
from trtdiag.convert.writer import Size
from trtdiag.network.dtype import DType
from trtdiag.network.layers.convolution import Deconvolution
from trtdiag.network.layers.slice import SampleMode
from trtdiag.network.layers.windows import window_count
from trtdiag.network.tensor import Shape
from trtdiag.network.value import Value
from trtdiag.symbolic import Expr, Num, add, floordiv

Pair = tuple[int, ...]
"""A number for each dim of an image."""
_MOST_WEIGHTS = 4 * 2**20
"""Own choice: 8 MiB of float16, 1024 channels that become 256."""


@converter
def pixel_shuffle(call: Call) -> Value:
    """aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor"""
    write, x, factor = call.write, call.tensor("self"), call.integer("upscale_factor")
    channels = call.out.shape[-3]
    if isinstance(channels, Num) and _moves_by_weights(call, int(channels.value), factor):
        return _moved_by_weights(call, int(channels.value), factor)
    batch, (height, width) = list(x.shape[:-3]), x.shape[-2:]
    apart = write.reshape(x, [*batch, call.out.shape[-3], factor, factor, height, width])
    b = len(batch)
    moved = write.permute(apart, [*range(b + 1), b + 3, b + 1, b + 4, b + 2])
    return write.reshape(moved, call.out.shape)


def _moves_by_weights(call: Call, channels: int, factor: int) -> bool:
    """Whether the target moves pixels faster by a transposed convolution.

    Only what was timed is written so: images in float16 with few weights and with channels in eights.  A U-Net that
    ended in three was wrong with it, though the op alone was right; what is at fault there is not known.
    """
    x = call.tensor("self")
    if "shuffle-of-pixels" not in call.write.target.slow or x.dtype is not DType.FLOAT16 or x.rank != 4:
        return False
    return factor > 1 and channels % 8 == 0 and 0 < (channels * factor**2) ** 2 <= _MOST_WEIGHTS


def _moved_by_weights(call: Call, channels: int, factor: int) -> Value:
    """Each element times 1, and the others of its pixel times 0: exact, but for infinities, which spread as NaN."""
    write, taps = call.write, factor**2
    own = torch.eye(channels).reshape(channels, 1, channels, 1, 1) * torch.eye(taps).reshape(1, taps, 1, factor, factor)
    weights = own.reshape(channels * taps, channels, factor, factor).half()
    layer = Deconvolution((factor, factor), (0, 0), (0, 0), (1, 1), 1)
    return write.add(layer, call.tensor("self"), write.constant(weights))


@converter
def pixel_unshuffle(call: Call) -> Value:
    """aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor"""
    write, x, factor = call.write, call.tensor("self"), call.integer("downscale_factor")
    batch, (height, width) = list(x.shape[:-3]), call.out.shape[-2:]
    apart = write.reshape(x, [*batch, x.shape[-3], height, factor, width, factor])
    b = len(batch)
    moved = write.permute(apart, [*range(b + 1), b + 2, b + 4, b + 1, b + 3])
    return write.reshape(moved, call.out.shape)


@converter
def channel_shuffle(call: Call) -> Value:
    """aten::channel_shuffle(Tensor self, SymInt groups) -> Tensor
    aten::native_channel_shuffle(Tensor self, SymInt groups) -> Tensor
    """
    write, x, groups = call.write, call.tensor("self"), call.size("groups")
    apart = write.reshape(x, [x.shape[0], groups, floordiv(x.shape[1], groups), *x.shape[2:]])
    return write.reshape(write.permute(apart, [0, 2, 1, *range(3, apart.rank)]), x.shape)


@converter
def im2col(call: Call) -> Value:
    """aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor"""
    write, x = call.write, call.tensor("self")
    lead = x.rank - 2
    kernel, dilation, padding, stride, counts = _windows(call, x.shape[lead:])
    if any(padding):
        start: list[Size] = [*[0] * lead, *(-before for before in padding)]
        sizes = [*x.shape[:lead], *(add(n, 2 * p) for n, p in zip(x.shape[lead:], padding, strict=True))]
        x = write.slice(x, start, sizes, [1] * x.rank, SampleMode.FILL, write.number(0, x.dtype))
    for place, axis in enumerate((lead, lead + 2)):  # each becomes kernel x windows
        rows = index_grid(write, [kernel[place], counts[place]], [dilation[place], stride[place]])
        x = write.gather(x, rows, axis)
    batch = list(range(lead))
    windows = write.permute(x, [*batch, lead, lead + 2, lead + 1, lead + 3])
    return write.reshape(windows, call.out.shape)


@converter
def col2im(call: Call) -> Value:
    """aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding,
    int[2] stride) -> Tensor

    The sum of the windows is a transposed convolution with ones, which takes floats only and a known number of
    channels.
    """
    write, x, out = call.write, call.tensor("self"), call.out
    if not x.dtype.is_float:
        raise refuse("dtype", f"windows of {x.dtype.value} cannot be summed: TensorRT's deconvolution takes floats")
    kernel, dilation, padding, stride, counts = _windows(call, out.shape[-2:])
    channels = out.shape[-3]
    if not isinstance(channels, Num):
        raise refuse("dynamic-attribute", "the number of channels must be known at compile time")
    count, taps = int(channels.value), kernel[0] * kernel[1]
    batch: Expr | int = x.shape[0] if x.rank == 3 else 1
    images = write.reshape(x, [batch, count * taps, *counts])
    weights = torch.eye(taps, dtype=x.dtype.torch).reshape(taps, 1, *kernel).repeat(count, 1, 1, 1)
    layer = Deconvolution(stride, (0, 0), (0, 0), dilation, count)
    full = deconvolved(write, layer, images, write.constant(weights))
    # What the windows do not reach stays zero; the padding around the image is cut off.
    sizes = [full.shape[0], full.shape[1], *out.shape[-2:]]
    start: list[Size] = [0, 0, *padding]
    image = write.slice(full, start, sizes, [1] * 4, SampleMode.FILL, write.number(0, x.dtype))
    return image if x.rank == 3 else write.squeeze(image, [0])


def _windows(call: Call, sizes: Shape) -> tuple[Pair, Pair, Pair, Pair, list[Expr]]:
    """Kernel, dilation, padding and stride of the windows over an image, and how many there are along each dim."""
    kernel, dilation, padding, stride = (
        call.integers(name, 2) for name in ("kernel_size", "dilation", "padding", "stride")
    )
    extents = [apart * (taps - 1) + 1 for apart, taps in zip(dilation, kernel, strict=True)]
    counts = [
        window_count(size, padding=2 * around, extent=extent, stride=step)
        for size, around, extent, step in zip(sizes, padding, extents, stride, strict=True)
    ]
    return kernel, dilation, padding, stride, counts
