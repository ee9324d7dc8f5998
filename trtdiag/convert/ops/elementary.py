"""Functions of one element: exponentials, logarithms, roots, angles, signs."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi

from trtdiag.convert import Call, Writer, converter
from trtdiag.convert.layer_writers import elementary
from trtdiag.convert.layer_writers.compute_dtype import in_float32
from trtdiag.network import DType, Value
from trtdiag.network.layers.unary import UnaryOperation


@converter
def native(call: Call) -> Value:
    """aten::acos(Tensor self) -> Tensor
    aten::acosh(Tensor self) -> Tensor
    aten::asin(Tensor self) -> Tensor
    aten::asinh(Tensor self) -> Tensor
    aten::atan(Tensor self) -> Tensor
    aten::atanh(Tensor self) -> Tensor
    aten::cos(Tensor self) -> Tensor
    aten::cosh(Tensor self) -> Tensor
    aten::erf(Tensor self) -> Tensor
    aten::exp(Tensor self) -> Tensor
    aten::log(Tensor self) -> Tensor
    aten::sin(Tensor self) -> Tensor
    aten::sinh(Tensor self) -> Tensor
    aten::sqrt(Tensor self) -> Tensor
    aten::tan(Tensor self) -> Tensor
    aten::reciprocal(Tensor self) -> Tensor
    aten::rsqrt(Tensor self) -> Tensor
    aten::neg(Tensor self) -> Tensor
    aten::exp2(Tensor self) -> Tensor
    aten::abs(Tensor self) -> Tensor
    aten::sgn(Tensor self) -> Tensor
    aten::sign(Tensor self) -> Tensor
    """
    write, x = call.write, call.operand("self", call.out.dtype)
    compose = _EXACT.get(call.op_name)
    return write.unary(UnaryOperation[call.op_name.upper()], x) if compose is None else compose(write, x)


_EXACT: dict[str, Callable[[Writer, Value], Value]] = {
    "reciprocal": lambda write, x: x.reciprocal(),
    "rsqrt": lambda write, x: x.sqrt().reciprocal(),
    "neg": elementary.opposite,
    "exp2": lambda write, x: 2**x,
    "abs": lambda write, x: x if x.dtype is DType.BOOL else abs(x),
    "sgn": elementary.sign,
    "sign": elementary.sign,
}


# Divided by the logarithm of the base: powers of it come out whole more often than by a reciprocal.
_COMPOSED: dict[str, Callable[[Writer, Value], Value]] = {
    "expm1": elementary.exp_less_one,
    "log1p": elementary.log_of_one_plus,
    "sinc": elementary.sine_cardinal,
    "deg2rad": lambda write, x: elementary.times(write, x, pi / 180),
    "rad2deg": lambda write, x: elementary.times(write, x, 180 / pi),
    "log2": lambda write, x: x.log() / log(2),
    "log10": lambda write, x: x.log() / log(10),
    "erfc": lambda write, x: write.scalar(1, x) - write.unary(UnaryOperation.ERF, x),
}


@converter
def composed(call: Call) -> Value:
    """aten::log2(Tensor self) -> Tensor
    aten::log10(Tensor self) -> Tensor

    Computed from the natural logarithm: the last bit may differ.

    aten::erfc(Tensor self) -> Tensor

    Computed as ``1 - erf(self)``: above 0.5 the error is at most 1e-7, but not relative to the result.

    aten::expm1(Tensor self) -> Tensor
    aten::log1p(Tensor self) -> Tensor
    aten::sinc(Tensor self) -> Tensor
    aten::deg2rad(Tensor self) -> Tensor
    aten::rad2deg(Tensor self) -> Tensor
    """
    compose = _COMPOSED[call.op_name]
    return in_float32(call.write, lambda x: compose(call.write, x), call.operand("self", call.out.dtype))


@converter
def signbit(call: Call) -> Value:
    """aten::signbit(Tensor self) -> Tensor

    False for NaN, whatever its sign.
    """
    x, write = call.tensor("self"), call.write
    if x.dtype is DType.BOOL:
        return write.filled(x.shape, False, DType.BOOL)
    if x.dtype.is_float:
        return elementary.sign_bit(write, x)
    return x < 0


@converter
def logit(call: Call) -> Value:
    """aten::logit(Tensor self, float? eps=None) -> Tensor"""
    write, eps = call.write, call.number_or_none("eps")

    def compose(x: Value) -> Value:
        if eps is not None:
            # As in PyTorch the lower bound counts first, also where an eps above one half makes it the greater one.
            x = write.select(x < eps, eps, x.minimum(1 - eps))
        return (x / (1 - x)).log()

    return in_float32(write, compose, call.operand("self", call.out.dtype))
