"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert import Call, converter, refuse
from trtdiag.convert.layer_writers.quantized import paired
from trtdiag.convert.layer_writers.spatial_dims import reaching, spatial
from trtdiag.convert.layer_writers.transposed_convolution import deconvolved
from trtdiag.convert.reshape_writer import numbers
from trtdiag.network.layers.convolution import Convolution, Deconvolution
from trtdiag.network.value import Value
from trtdiag.symbolic import Num, add


@converter
def convolution(call: Call) -> Value:
    """aten::conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0],
        SymInt[1] dilation=[1], SymInt groups=1) -> Tensor
    aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0],
        SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor
    aten::conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0,
        0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor
    aten::conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding="valid",
        SymInt[1] dilation=[1], SymInt groups=1) -> Tensor
    aten::conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str padding="valid",
        SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor
    aten::conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], str
        padding="valid", SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor
    aten::_convolution_mode(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, str padding, SymInt[] dilation,
        SymInt groups) -> Tensor
    aten::conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0],
        SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor
    aten::conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2]
        padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor
    aten::conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3]
        padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1]) -> Tensor
    aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation,
        bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor
    aten::_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation,
        bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled,
        bool allow_tf32) -> Tensor
    """
    write = call.write
    dims = call.tensor("weight").rank - 2
    if call.op_name.startswith("conv_transpose") or call.flag("transposed"):
        return transposed(call, dims)
    padding = _padding(call, dims)
    kernel, bias = kernel_of(call, dims), bias_of(call)
    space = spatial(write, call.tensor("input"), dims)
    layer = Convolution(
        space.padded(call.integers("stride", dims), 1),
        space.padded([before for before, _ in padding], 0),
        space.padded([after for _, after in padding], 0),
        space.padded(call.integers("dilation", dims), 1),
        call.integer("groups"),
    )
    return space.leave(write.add(layer, space.x, kernel, *([] if bias is None else [bias])))


def _padding(call: Call, dims: int) -> Sequence[tuple[int, int]]:
    """Numbers: as many before as after; ``valid``: none; ``same``: what the kernel takes off, the odd one after."""
    if not isinstance(call.arguments["padding"], str):
        return [(number, number) for number in call.integers("padding", dims)]
    if call.arguments["padding"] == "valid":
        return [(0, 0)] * dims
    kernel = numbers(call.tensor("weight").shape[2:])
    if kernel is None:
        raise refuse("dynamic-kernel", "the kernel's spatial sizes are known only when the network runs")
    whole = [d * (k - 1) for d, k in zip(call.integers("dilation", dims), kernel, strict=True)]
    return [(number // 2, number - number // 2) for number in whole]


# Kernels of convolutions, and the transposed convolution with what it adds at the end of its output.


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
