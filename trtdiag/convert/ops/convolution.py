"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.convolution_kernels import bias_of, kernel_of, transposed
from trtdiag.convert.layer_writers.spatial_dims import spatial
from trtdiag.convert.refusal import refuse
from trtdiag.convert.registry import converter
from trtdiag.network.builder import Value
from trtdiag.network.layers.convolution import Convolution
from trtdiag.symbolic import Num


@converter
def conv1d(call: Call) -> Value:
    """aten::conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0],
    SymInt[1] dilation=[1], SymInt groups=1) -> Tensor
    """
    return _convolved(call, 1, _alike(call, 1))


@converter
def conv2d(call: Call) -> Value:
    """aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0],
    SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor
    """
    return _convolved(call, 2, _alike(call, 2))


@converter
def conv3d(call: Call) -> Value:
    """aten::conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1],
    SymInt[3] padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor
    """
    return _convolved(call, 3, _alike(call, 3))


@converter
def conv1d_padding(call: Call) -> Value:
    """aten::conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding="valid",
    SymInt[1] dilation=[1], SymInt groups=1) -> Tensor
    """
    return _convolved(call, 1, _named(call, 1))


@converter
def conv2d_padding(call: Call) -> Value:
    """aten::conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str
    padding="valid", SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor
    """
    return _convolved(call, 2, _named(call, 2))


@converter
def conv3d_padding(call: Call) -> Value:
    """aten::conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1],
    str padding="valid", SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor
    """
    return _convolved(call, 3, _named(call, 3))


@converter
def convolution_mode(call: Call) -> Value:
    """aten::_convolution_mode(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, str padding, SymInt[]
    dilation, SymInt groups) -> Tensor
    """
    dims = call.tensor("weight").rank - 2
    return _convolved(call, dims, _named(call, dims))


@converter
def conv_transpose1d(call: Call) -> Value:
    """aten::conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1]
    padding=[0], SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor
    """
    return transposed(call, 1)


@converter
def conv_transpose2d(call: Call) -> Value:
    """aten::conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1],
    SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor
    """
    return transposed(call, 2)


@converter
def conv_transpose3d(call: Call) -> Value:
    """aten::conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1],
    SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1])
    -> Tensor
    """
    return transposed(call, 3)


@converter
def convolution(call: Call) -> Value:
    """aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[]
    dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor
    """
    return _either(call)


@converter
def underscore_convolution(call: Call) -> Value:
    """aten::_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[]
    dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool
    cudnn_enabled, bool allow_tf32) -> Tensor
    """
    return _either(call)


def _either(call: Call) -> Value:
    dims = call.tensor("weight").rank - 2
    return transposed(call, dims) if call.flag("transposed") else _convolved(call, dims, _alike(call, dims))


Padding = Sequence[tuple[int, int]]


def _alike(call: Call, dims: int) -> Padding:
    """As many elements before as after."""
    return [(number, number) for number in call.integers("padding", dims)]


def _named(call: Call, dims: int) -> Padding:
    """``valid``: none; ``same``: as many as the kernel takes off, the odd one after."""
    if call.text("padding") == "valid":
        return [(0, 0)] * dims
    sizes = call.tensor("weight").shape[2:]
    if not all(isinstance(size, Num) for size in sizes):
        raise refuse("dynamic-kernel", "the kernel's spatial sizes are known only when the network runs")
    kernel = [int(size.value) for size in sizes if isinstance(size, Num)]
    whole = [d * (k - 1) for d, k in zip(call.integers("dilation", dims), kernel, strict=True)]
    return [(number // 2, number - number // 2) for number in whole]


def _convolved(call: Call, dims: int, padding: Padding) -> Value:
    write = call.write
    kernel = kernel_of(call, dims)
    space = spatial(write, call.tensor("input"), dims)
    groups = call.integer("groups")
    layer = Convolution(
        space.padded(call.integers("stride", dims), 1),
        space.padded([before for before, _ in padding], 0),
        space.padded([after for _, after in padding], 0),
        space.padded(call.integers("dilation", dims), 1),
        groups,
    )
    bias = bias_of(call)
    return space.leave(write.add(layer, space.x, kernel, *([] if bias is None else [bias])))
