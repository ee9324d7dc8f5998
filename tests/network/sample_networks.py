"""Networks for tests of the whole: a small convolutional net over two dynamic sizes, written to order."""

from __future__ import annotations

import torch

from trtdiag.graph.source import Frame
from trtdiag.network import DType, Network, NetworkBuilder, Origin
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.network.layers.constant import Fill
from trtdiag.network.layers.convolution import Convolution
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.network.layers.reduce import Reduce, ReduceOperation
from trtdiag.network.layers.softmax import SoftMax
from trtdiag.symbolic import Range, symbol


def small_network(
    *,
    axis: int = 1,
    stride: int = 1,
    swapped: bool = False,
    exponent: float = 2.0,
    bit: int = 0,
    dtype: DType = DType.FLOAT32,
    names: tuple[str, str] = ("h", "w"),
    label: str = "",
    unused: bool = False,
    late_constant: bool = False,
    fill: float = 1.0,
    square: bool = False,
    most: int = 40,
) -> Network:
    """``softmax(mean(relu(conv(x))) ** exponent - bias)`` with two outputs; each argument changes one thing."""
    h, w = symbol(names[0]), symbol(names[0] if square else names[1])
    builder = NetworkBuilder({name: Range(4, most) for name in names})
    weight = torch.linspace(-1, 1, 6 * 3 * 3 * 3).reshape(6, 3, 3, 3)
    weight.view(torch.int32)[0, 0, 0, 0] ^= bit
    with builder.at(Origin("aten.conv2d.default", f"conv{label}", Frame("model.py", 7 + len(label)))):
        x = builder.input(f"x{label}", dtype, [2, 3, h, w])
        numbers = (torch.tensor([[exponent]]), torch.linspace(0, 1, 6).reshape(1, 6))
        constants = None if late_constant else [builder.constant(n.to(dtype.torch)) for n in numbers]
        y = builder.add_single(
            Convolution((stride, 1), (1, 1), (1, 1), (1, 1)), x, builder.constant(weight.to(dtype.torch))
        )
        y = builder.add_single(Activation(ActivationType.RELU), y)
        if unused:
            builder.add(Activation(ActivationType.TANH), y)
        y = builder.add_single(Reduce(ReduceOperation.AVG, (2, 3)), y)
        power, bias = constants or [builder.constant(n.to(dtype.torch)) for n in numbers]
        y = builder.add_single(ElementWise(ElementWiseOperation.POW), y, power)
        y = builder.add_single(ElementWise(ElementWiseOperation.SUB), *((bias, y) if swapped else (y, bias)))
        builder.output(f"first{label}", builder.add_single(SoftMax(axis), y))
        builder.output(f"second{label}", builder.add_single(Fill((3,), DType.FLOAT32, fill, (2.0,))))
    return builder.build()
