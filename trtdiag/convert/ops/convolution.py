"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.convolution_kernels import bias_of, kernel_of, transposed
from trtdiag.convert.layer_writers.spatial_dims import spatial
from trtdiag.convert.refusal import refuse
from trtdiag.convert.registry import converter
from trtdiag.convert.reshape_writer import numbers
from trtdiag.network.layers.convolution import Convolution
from trtdiag.network.value import Value


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
