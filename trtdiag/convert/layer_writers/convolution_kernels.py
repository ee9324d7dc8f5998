"""Kernels of convolutions, and the transposed convolution with what it adds at the end of its output."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.quantized import paired
from trtdiag.convert.layer_writers.spatial_dims import reaching, spatial
from trtdiag.convert.layer_writers.transposed_convolution import deconvolved
from trtdiag.convert.refusal import refuse
from trtdiag.network.layers.convolution import Deconvolution
from trtdiag.network.value import Value
from trtdiag.symbolic import Num, add


def kernel_of(call: Call, dims: int) -> Value:
    """The kernel with two or three dims of space; one that the program brings stays a constant."""
    weight, content = paired(call.write, call.tensor("input"), call.tensor("weight")), call.held.get("weight")
    if not weight.dtype.is_float:
        raise refuse("integer-convolution", "the layer takes no integers", "compute it in float32")
    if not all(isinstance(size, Num) for size in weight.shape[2:]):
        raise refuse("dynamic-kernel", "the kernel's spatial sizes are known only when the network runs")
    if dims != 1:
        return weight
    if content is not None:
        return call.write.constant(content.to(weight.dtype.torch).unsqueeze(2))
    return call.write.unsqueeze(weight, [2])


def bias_of(call: Call) -> Value | None:
    """The bias in the dtype of the kernel."""
    bias = call.tensor_or_none("bias")
    return None if bias is None else call.write.cast(bias, call.tensor("weight").dtype)


def transposed(call: Call, dims: int) -> Value:
    """A transposed convolution.

    ``output_padding`` leaves more at the end; where that is more than ``padding`` cut off, nothing of the kernel
    reaches there, and only the bias is left.
    """
    write = call.write
    kernel, bias = kernel_of(call, dims), bias_of(call)
    space = spatial(write, call.tensor("input"), dims)
    padding = space.padded(call.integers("padding", dims), 0)
    more = space.padded(call.integers("output_padding", dims), 0)
    after = tuple(cut - extra for cut, extra in zip(padding, more, strict=True))
    layer = Deconvolution(
        space.padded(call.integers("stride", dims), 1),
        padding,
        tuple(max(0, number) for number in after),
        space.padded(call.integers("dilation", dims), 1),
        call.integer("groups"),
    )
    if all(number >= 0 for number in after):
        return space.leave(deconvolved(write, layer, space.x, kernel, bias))
    y = deconvolved(write, layer, space.x, kernel)
    sizes = [add(size, max(0, -number)) for size, number in zip(y.shape[2:], after, strict=True)]
    y = reaching(write, y, [0] * space.dims, sizes, None)
    if bias is not None:
        y = y + write.along(bias, 1, y.rank)
    return space.leave(y)
