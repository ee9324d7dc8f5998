"""Activations that are one layer, and those that choose between pieces."""

from __future__ import annotations

from collections.abc import Callable

from trtdiag.convert import Call, Writer, converter
from trtdiag.convert.layer_writers.compute_dtype import in_float32
from trtdiag.convert.layer_writers.elementary import at_most, exp_less_one, times
from trtdiag.network import Placed, Value
from trtdiag.network.layers import ActivationType, Cast, Normalization, ParametricReLU, Shuffle

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193352946  # both as in torch's SELU, to more digits than a float has


def _relu(call: Call, x: Value) -> Value:
    if x.dtype.is_float and not fuses_only_elementwise(call.write, x):
        return call.write.activation(ActivationType.RELU, x)
    return x.maximum(0)


def _leaky(call: Call, x: Value, slope: float) -> Value:
    # With a slope of 0 the product of an infinite element is NaN; with one above 1 the greater is the wrong one.
    if 0 < slope <= 1 and fuses_only_elementwise(call.write, x):
        return x.maximum(times(call.write, x, slope))
    return call.write.activation(ActivationType.LEAKY_RELU, x, slope)


def _between(call: Call, x: Value, least: float, most: float) -> Value:
    if x.dtype.is_float and least <= most:
        return call.write.activation(ActivationType.CLIP, x, least, most)
    return x.maximum(least).minimum(most)


def _exponential(call: Call, x: Value, alpha: float, scale: float, inner: float) -> Value:
    """``scale * x`` above 0, else ``scale * alpha * (exp(inner * x) - 1)``."""
    write = call.write
    if inner == 1:
        if scale == 1:
            return write.activation(ActivationType.ELU, x, alpha)
        return write.activation(ActivationType.SELU, x, alpha, scale)

    def compose(value: Value) -> Value:
        inside = times(write, value, inner)
        if inner > 0:
            below = write.activation(ActivationType.ELU, inside, alpha)
        else:  # what the layer has an exponential for is above 0 then
            below = exp_less_one(write, inside) * alpha
        return times(write, write.select(value > 0, value, below), scale)

    return in_float32(write, compose, x)


def _celu(call: Call, x: Value) -> Value:
    alpha = float(call.number("alpha"))
    return _exponential(call, x, alpha, 1.0, 1.0 / alpha)


def _hard_sigmoid(call: Call, x: Value) -> Value:
    return call.write.activation(ActivationType.HARD_SIGMOID, x, 1 / 6, 0.5)


def _hard_swish(call: Call, x: Value) -> Value:
    """In the order of PyTorch's kernel for CPUs, so that what quantizes it falls to the same step."""

    def written(wide: Value) -> Value:
        return wide * call.write.activation(ActivationType.CLIP, wide + 3.0, 0.0, 6.0) / 6.0

    return in_float32(call.write, written, x)


def _soft_shrink(call: Call, x: Value) -> Value:
    most = float(call.number("lambd"))
    return x - call.write.activation(ActivationType.CLIP, x, -most, most)


def _floats(call: Call, *names: str) -> tuple[float, ...]:
    return tuple(float(call.number(name)) for name in names)


def _where_at_most(call: Call, x: Value, size: Value, limit: str, then: Value | float) -> Value:
    return call.write.select(at_most(call.write, size, call.operand(limit, x.dtype)), then, x)


_WRITTEN: dict[str, Callable[[Call, Value], Value]] = {
    "relu": _relu,
    "relu6": lambda call, x: _between(call, x, 0.0, 6.0),
    "hardtanh": lambda call, x: _between(call, x, *_floats(call, "min_val", "max_val")),
    "sigmoid": lambda call, x: call.write.activation(ActivationType.SIGMOID, x),
    "tanh": lambda call, x: call.write.activation(ActivationType.TANH, x),
    "elu": lambda call, x: _exponential(call, x, *_floats(call, "alpha", "scale", "input_scale")),
    "selu": lambda call, x: _exponential(call, x, _SELU_ALPHA, _SELU_SCALE, 1.0),
    "celu": _celu,
    "leaky_relu": lambda call, x: _leaky(call, x, *_floats(call, "negative_slope")),
    "rrelu": lambda call, x: _leaky(call, x, sum(_floats(call, "lower", "upper")) / 2),
    "hardsigmoid": _hard_sigmoid,
    "hardswish": _hard_swish,
    "hardshrink": lambda call, x: _where_at_most(call, x, abs(x), "lambd", 0),
    "softshrink": _soft_shrink,
    "threshold": lambda call, x: _where_at_most(call, x, x, "threshold", call.operand("value", x.dtype)),
}


@converter
def activation(call: Call) -> Value:
    """aten::relu(Tensor self) -> Tensor
    aten::hardsigmoid(Tensor self) -> Tensor

    NaN gives 0 on TensorRT 8.6.

    aten::relu6(Tensor self) -> Tensor

    NaN gives 6 on TensorRT 8.6.

    aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor

    NaN gives the upper bound on TensorRT 8.6.

    aten::rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False,
        Generator? generator=None) -> Tensor

    Without training; in training it draws its slopes.

    aten::sigmoid(Tensor self) -> Tensor
    aten::tanh(Tensor self) -> Tensor
    aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor
    aten::selu(Tensor self) -> Tensor
    aten::celu(Tensor self, Scalar alpha=1.) -> Tensor
    aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor
    aten::hardswish(Tensor self) -> Tensor
    aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor
    aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor
    aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor
    """
    return _WRITTEN[call.op_name](call, call.operand("self", call.out.dtype))


@converter
def prelu(call: Call) -> Value:
    """aten::prelu(Tensor self, Tensor weight) -> Tensor
    aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor
    """
    x, slopes, write = call.tensor("self"), call.tensor("weight"), call.write
    if call.op_name == "prelu":  # one slope for all, or one for each channel, which is dim 1
        sizes = [1] * x.rank if x.rank < 2 else [1, slopes.shape[0] if slopes.rank else 1, *[1] * (x.rank - 2)]
        slopes = write.reshape(slopes, sizes)
    return write.add(ParametricReLU(), x, write.with_rank(slopes, x.rank))


# What TensorRT compiles into one kernel, where how a thing is written decides it.


_MOVED = 3
"""Layers between a normalization and what follows: its groups are shaped back, and its dtype is cast back."""


def fuses_only_elementwise(write: Writer, x: Value) -> bool:
    """Whether x comes from a normalization that the target fuses with elementwise layers alone.

    TensorRT 8.6 compiles a Normalization with the products, sums and maxima behind it as one, but leaves an Activation
    to a kernel of its own, which reads and writes the whole tensor once more.
    """
    if "activation-behind-normalization" not in write.target.slow:
        return False
    made = write.builder.producer(x.id)
    for _ in range(_MOVED):
        if made is None or not isinstance(made.layer, (Shuffle, Cast)):
            break
        made = write.builder.producer(made.inputs[0])
    return made is not None and _normalizes(write, made)


def _normalizes(write: Writer, made: Placed) -> bool:
    """Whether the op that a layer was written for has a Normalization among its layers up to this one."""
    waiting, seen = [made], {made.outputs}
    while waiting:
        placed = waiting.pop()
        if isinstance(placed.layer, Normalization):
            return True
        for number in placed.inputs:
            before = write.builder.producer(number)
            if before is not None and before.origin == made.origin and before.outputs not in seen:
                seen.add(before.outputs)
                waiting.append(before)
    return False
