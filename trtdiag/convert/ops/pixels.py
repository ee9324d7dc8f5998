"""Channels and pixels rearranged: pixel_shuffle, channel_shuffle, im2col and its sum back."""

from __future__ import annotations

import torch

from trtdiag.convert import Call, converter, refuse
from trtdiag.convert.layer_writers.indices import index_grid
from trtdiag.convert.layer_writers.spatial_dims import reaching
from trtdiag.convert.reshape_writer import Size
from trtdiag.convert.writer import Writer
from trtdiag.network import DType, Value
from trtdiag.network.layers.convolution import Deconvolution
from trtdiag.network.layers.elementwise import ElementWiseOperation
from trtdiag.network.layers.windows import window_count
from trtdiag.shapes.op_call import Shape
from trtdiag.symbolic import Expr, Num, add, floordiv, mul

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

    The windows are summed along the width, then along the height, in float32 where they overlap, as PyTorch does.
    A transposed convolution with ones says the same in one layer, and TensorRT 8.6 took 3.8 ms for it where all else
    of VOLO's block took 0.3 (192 channels, a group for each).
    """
    write, x, out = call.write, call.tensor("self"), call.out
    if not x.dtype.is_float:
        raise refuse("dtype", f"windows of {x.dtype.value} cannot be summed: PyTorch sums those of floats alone")
    kernel, dilation, padding, stride, counts = _windows(call, out.shape[-2:])
    lead = len(out.shape) - 2
    summed = write.reshape(x, [*out.shape[:-2], *kernel, *counts])
    if any(apart * taps > step for apart, taps, step in zip(dilation, kernel, stride, strict=True)):
        summed = write.cast(summed, DType.FLOAT32)
    for place, behind in ((1, lead + 3), (0, lead + 1)):
        summed = _overlapped(write, summed, lead + place, behind, kernel[place], dilation[place], stride[place])
    # What the windows do not reach stays zero; the padding around the image is cut off.
    return write.cast(reaching(write, summed, [-before for before in padding], out.shape[-2:], 0), x.dtype)


def _overlapped(write: Writer, x: Value, axis: int, behind: int, taps: int, dilation: int, stride: int) -> Value:
    """Windows summed along one dim of the image, of which ``axis`` holds the taps and ``behind`` the windows.

    As many taps as two windows are apart lie side by side, so ``x`` is cut into pieces of so many; what each next piece
    holds lies one window further on.
    """
    if dilation > 1:  # zeros between the taps
        apart = write.reshape(x, [*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]])
        spread = reaching(write, apart, [0] * (apart.rank - axis - 1), [Num(dilation), *x.shape[axis + 1 :]], 0)
        taps *= dilation
        x = write.reshape(spread, [*x.shape[:axis], taps, *x.shape[axis + 1 :]])
    pieces = -(-taps // stride)
    length = add(x.shape[behind], pieces - 1)
    sizes = [Num(stride), *x.shape[axis + 1 : behind], length, *x.shape[behind + 1 :]]
    between, after = [0] * (behind - axis - 1), [0] * (x.rank - behind - 1)
    cut = (reaching(write, x, [-piece * stride, *between, piece, *after], sizes, 0) for piece in range(pieces))
    order = [*range(axis), *range(axis + 1, behind + 1), axis, *range(behind + 1, x.rank)]
    whole = write.permute(write.fold(ElementWiseOperation.SUM, cut), order)
    return write.reshape(whole, [*whole.shape[: behind - 1], mul(stride, length), *whole.shape[behind + 1 :]])


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
