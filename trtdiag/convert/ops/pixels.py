"""Channels and pixels rearranged: pixel_shuffle, channel_shuffle, im2col and its sum back."""

from __future__ import annotations

import torch

from trtdiag.convert import Call, converter, refuse
from trtdiag.convert.layer_writers.indices import index_grid
from trtdiag.convert.layer_writers.spatial_dims import reaching
from trtdiag.convert.layer_writers.transposed_convolution import deconvolved
from trtdiag.convert.reshape_writer import Size
from trtdiag.network import DType, Value
from trtdiag.network.layers.convolution import Deconvolution
from trtdiag.network.layers.windows import window_count
from trtdiag.shapes.op_call import Shape
from trtdiag.symbolic import Expr, Num, add, floordiv

Pair = tuple[int, ...]
"""A number for each dim of an image."""
_MOST_WEIGHTS = 4 * 2**20
"""Own choice: 8 MiB of float16, 1024 channels that become 256."""


@converter
def pixel_shuffle(call: Call) -> Value:
    """aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor
    aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor
    """
    write, x, out, grows = call.write, call.tensor("self"), call.out, call.op_name == "pixel_shuffle"
    factor, channels, lead = call.integer("upscale_factor" if grows else "downscale_factor"), out.shape[-3], x.rank - 3
    if grows and isinstance(channels, Num) and _moves_by_weights(call, int(channels.value), factor):
        return _moved_by_weights(call, int(channels.value), factor)
    height, width = (x if grows else out).shape[-2:]
    apart: list[Size] = [x.shape[-3], height, factor, width, factor]
    order = [0, 2, 4, 1, 3]
    if grows:
        apart, order = [channels, factor, factor, height, width], [0, 3, 1, 4, 2]
    whole = write.reshape(x, [*x.shape[:lead], *apart])
    return write.reshape(write.permute(whole, [*range(lead), *(lead + place for place in order)]), out.shape)


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
    x = reaching(write, x, padding, [add(n, 2 * p) for n, p in zip(x.shape[lead:], padding, strict=True)], 0)
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
    image = reaching(write, full, [-before for before in padding], out.shape[-2:], 0)
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
