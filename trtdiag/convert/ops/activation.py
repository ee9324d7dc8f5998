"""Activations that are one layer, and those that choose between pieces."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.compute_dtype import in_float32
from trtdiag.convert.layer_writers.elementary import at_most, times
from trtdiag.convert.layer_writers.fusion import fuses_only_elementwise
from trtdiag.convert.promotion import computed
from trtdiag.convert.registry import converter
from trtdiag.network.builder import Value
from trtdiag.network.layers.activation import ActivationType, ParametricReLU
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.unary import UnaryOperation

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193352946  # both as in torch's SELU, to more digits than a float has


@converter
def relu(call: Call) -> Value:
    """aten::relu(Tensor self) -> Tensor

    NaN gives 0 on TensorRT 8.6.
    """
    x = call.operand("self", computed(call))
    if x.dtype.is_float and not fuses_only_elementwise(call.write, x):
        return call.write.activation(ActivationType.RELU, x)
    return call.write.elementwise(Op.MAX, x, call.write.scalar(0, x))


@converter
def relu6(call: Call) -> Value:
    """aten::relu6(Tensor self) -> Tensor

    NaN gives 6 on TensorRT 8.6.
    """
    return _between(call, 0.0, 6.0)


@converter
def hardtanh(call: Call) -> Value:
    """aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor

    NaN gives the upper bound on TensorRT 8.6.
    """
    return _between(call, float(call.number("min_val")), float(call.number("max_val")))


@converter
def sigmoid(call: Call) -> Value:
    """aten::sigmoid(Tensor self) -> Tensor"""
    return call.write.activation(ActivationType.SIGMOID, call.operand("self", computed(call)))


@converter
def tanh(call: Call) -> Value:
    """aten::tanh(Tensor self) -> Tensor"""
    return call.write.activation(ActivationType.TANH, call.operand("self", computed(call)))


@converter
def elu(call: Call) -> Value:
    """aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor"""
    alpha, scale, inner = (float(call.number(name)) for name in ("alpha", "scale", "input_scale"))
    return _exponential(call, alpha, scale, inner)


@converter
def selu(call: Call) -> Value:
    """aten::selu(Tensor self) -> Tensor"""
    return _exponential(call, _SELU_ALPHA, _SELU_SCALE, 1.0)


@converter
def celu(call: Call) -> Value:
    """aten::celu(Tensor self, Scalar alpha=1.) -> Tensor"""
    alpha = float(call.number("alpha"))
    return _exponential(call, alpha, 1.0, 1.0 / alpha)


@converter
def leaky_relu(call: Call) -> Value:
    """aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor"""
    return _leaky(call, float(call.number("negative_slope")))


@converter
def rrelu(call: Call) -> Value:
    """aten::rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False,
    Generator? generator=None) -> Tensor

    Without training; in training it draws its slopes.
    """
    return _leaky(call, (float(call.number("lower")) + float(call.number("upper"))) / 2)


def _leaky(call: Call, slope: float) -> Value:
    write, x = call.write, call.tensor("self")
    # With a slope of 0 the product of an infinite element is NaN; with one above 1 the greater is the wrong one.
    if 0 < slope <= 1 and fuses_only_elementwise(write, x):
        return write.elementwise(Op.MAX, x, times(write, x, slope))
    return write.activation(ActivationType.LEAKY_RELU, x, slope)


@converter
def prelu(call: Call) -> Value:
    """aten::prelu(Tensor self, Tensor weight) -> Tensor"""
    x, slopes, write = call.tensor("self"), call.tensor("weight"), call.write
    # One slope for all, or one for each channel, which is dim 1.
    sizes = [1] * x.rank if x.rank < 2 else [1, slopes.shape[0] if slopes.rank else 1, *[1] * (x.rank - 2)]
    return write.add(ParametricReLU(), x, write.reshape(slopes, sizes))


@converter
def prelu_kernel(call: Call) -> Value:
    """aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor"""
    x, slopes = call.tensor("self"), call.tensor("weight")
    return call.write.add(ParametricReLU(), x, call.write.with_rank(slopes, x.rank))


@converter
def hardsigmoid(call: Call) -> Value:
    """aten::hardsigmoid(Tensor self) -> Tensor

    NaN gives 0 on TensorRT 8.6.
    """
    return call.write.activation(ActivationType.HARD_SIGMOID, call.tensor("self"), 1 / 6, 0.5)


@converter
def hardswish(call: Call) -> Value:
    """aten::hardswish(Tensor self) -> Tensor"""
    write = call.write

    def compose(x: Value) -> Value:
        return write.elementwise(Op.PROD, x, write.activation(ActivationType.HARD_SIGMOID, x, 1 / 6, 0.5))

    return in_float32(write, compose, call.tensor("self"))


@converter
def hardshrink(call: Call) -> Value:
    """aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor"""
    x, write = call.tensor("self"), call.write
    small = at_most(write, write.unary(UnaryOperation.ABS, x), call.operand("lambd", x.dtype))
    return write.select(small, write.scalar(0, x), x)


@converter
def softshrink(call: Call) -> Value:
    """aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor"""
    x, write, most = call.tensor("self"), call.write, float(call.number("lambd"))
    return write.elementwise(Op.SUB, x, write.activation(ActivationType.CLIP, x, -most, most))


@converter
def threshold(call: Call) -> Value:
    """aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor"""
    x, write = call.operand("self", computed(call)), call.write
    low = at_most(write, x, call.operand("threshold", x.dtype))
    return write.select(low, call.operand("value", x.dtype), x)


def _between(call: Call, least: float, most: float) -> Value:
    x, write = call.operand("self", computed(call)), call.write
    if x.dtype.is_float and least <= most:
        return write.activation(ActivationType.CLIP, x, least, most)
    x = write.elementwise(Op.MAX, x, write.scalar(least, x))
    return write.elementwise(Op.MIN, x, write.scalar(most, x))


def _exponential(call: Call, alpha: float, scale: float, inner: float) -> Value:
    """``scale * x`` above 0, else ``scale * alpha * (exp(inner * x) - 1)``."""
    x, write = call.tensor("self"), call.write
    if inner == 1:
        if scale == 1:
            return write.activation(ActivationType.ELU, x, alpha)
        return write.activation(ActivationType.SELU, x, alpha, scale)

    def compose(value: Value) -> Value:
        below = write.activation(ActivationType.ELU, times(write, value, inner), alpha)
        above = write.elementwise(Op.GREATER, value, write.scalar(0, value))
        return times(write, write.select(above, value, below), scale)

    return in_float32(write, compose, x)
