"""Transposed convolutions, as the layer of that name or as a Convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import torch

from trtdiag.convert.layer_writers.spatial_dims import reaching
from trtdiag.convert.writer import Writer
from trtdiag.network import DType, Value
from trtdiag.network.layers import Constant, Convolution, Deconvolution, SampleMode
from trtdiag.network.missing_features import lacks_dilation
from trtdiag.symbolic import Num, add, mul


def deconvolved(write: Writer, layer: Deconvolution, x: Value, kernel: Value, bias: Value | None = None) -> Value:
    """The layer, or what computes the same where the target does not take it.

    That is a Convolution, but for a strided one in a dtype that Deconvolution alone lacks: it is computed in float32,
    which multiplies no zeros.  A kernel that is not known when the engine is built does not go that way: TensorRT-RTX
    1.7.1 ends with "MyelinCheckException: wrap_attention_op_in_kgen" over the cast of the kernel.
    """
    # Along a dim where the kernel has one element there is nothing to dilate.
    taps = zip(layer.dilation, kernel.shape[2:], strict=True)
    layer = replace(layer, dilation=tuple(1 if size == Num(1) else dilation for dilation, size in taps))
    operands = (x, kernel) if bias is None else (x, kernel, bias)
    typed = write.target.takes(layer.kind, x.dtype.value)
    if lacks_dilation(write.target, layer) or _lacks_constant(write, layer, x):
        return _as_convolution(write, layer, x, kernel, bias)
    if typed:
        return write.add(layer, *operands)
    if prod(layer.stride) == 1 or _content(write, kernel) is None:
        return _as_convolution(write, layer, x, kernel, bias)
    return write.cast(write.add(layer, *(write.cast(operand, DType.FLOAT32) for operand in operands)), x.dtype)


def _lacks_constant(write: Writer, layer: Deconvolution, x: Value) -> bool:
    """Whether ``x`` is a constant that the target takes into no dilated layer of several groups.

    TensorRT-RTX ends with "CHECK(op->operands()[0]->is_tensor()) failed" there.
    """
    dilated = max(layer.dilation) > 1 and not write.target.dilated_deconvolutions
    return dilated and layer.groups > 1 and _content(write, x) is not None


def _as_convolution(write: Writer, layer: Deconvolution, x: Value, kernel: Value, bias: Value | None) -> Value:
    """A Convolution with the turned kernel over ``x`` with zeros between its elements, as many as strides leave out.

    The layer's paddings cut its result: what they leave of the elements that the kernel reaches over is padding here,
    and where they cut more, ``x`` is cut.
    """
    window = [int(size.value) for size in kernel.shape[2:] if isinstance(size, Num)]
    reached = [dilation * (size - 1) for dilation, size in zip(layer.dilation, window, strict=True)]
    before = [whole - cut for whole, cut in zip(reached, layer.pre_padding, strict=True)]
    after = [whole - cut for whole, cut in zip(reached, layer.post_padding, strict=True)]
    cuts = [min(0, pre) + min(0, post) for pre, post in zip(before, after, strict=True)]
    spread = _spread(write, x, layer.stride)
    # Zeros come behind the last element, too.
    sizes = [
        add(size, 1 - stride + cut) for size, stride, cut in zip(spread.shape[2:], layer.stride, cuts, strict=True)
    ]
    spread = reaching(write, spread, [min(0, pre) for pre in before], sizes, None)
    plain = Convolution(
        (1,) * len(window),
        tuple(max(0, pre) for pre in before),
        tuple(max(0, post) for post in after),
        layer.dilation,
        layer.groups,
    )
    return write.add(plain, spread, _turned(write, kernel, layer.groups), *([] if bias is None else [bias]))


def _spread(write: Writer, x: Value, stride: Sequence[int]) -> Value:
    """Each element of the dims of space with zeros behind it, ``stride - 1`` of them along each."""
    strided = [axis for axis, step in enumerate(stride, start=2) if step > 1]
    if not strided:
        return x
    apart = write.unsqueeze(x, [axis + 1 + place for place, axis in enumerate(strided)])
    sizes = list(apart.shape)
    for place, axis in enumerate(strided):
        sizes[axis + 1 + place] = Num(stride[axis - 2])
    filled = write.slice(apart, [0] * apart.rank, sizes, [1] * apart.rank, SampleMode.FILL)
    return write.reshape(filled, [*x.shape[:2], *(mul(*pair) for pair in zip(x.shape[2:], stride, strict=True))])


def _turned(write: Writer, kernel: Value, groups: int) -> Value:
    """The kernel of the Convolution: input and output channels of each group change places, space runs backwards."""
    content = _content(write, kernel)
    space = tuple(range(2, kernel.rank))
    if content is not None:
        by_group = content.reshape(groups, -1, *content.shape[1:])
        return write.constant(by_group.transpose(1, 2).flatten(0, 1).flip(space).contiguous())
    start = [0, 0, *(add(size, -1) for size in kernel.shape[2:])]
    backwards = write.slice(kernel, start, kernel.shape, [1, 1, *(-1 for _ in space)])
    if groups == 1:
        return write.permute(backwards, [1, 0, *space])
    inner, outer, *window = kernel.shape
    assert isinstance(inner, Num)  # the layer itself asks for it
    each = int(inner.value) // groups
    apart = write.reshape(backwards, [groups, each, outer, *window])
    swapped = write.permute(apart, [0, 2, 1, *(axis + 1 for axis in space)])
    return write.reshape(swapped, [mul(groups, outer), each, *window])


def _content(write: Writer, value: Value) -> torch.Tensor | None:
    """The elements of a value that are known when the engine is built."""
    layer = value.made_by
    return write.builder.weight(layer) if isinstance(layer, Constant) else None
