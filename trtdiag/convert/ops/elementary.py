"""Functions of one element: exponentials, logarithms, roots, angles, signs."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers import elementary
from trtdiag.convert.layer_writers.compute_dtype import in_float32
from trtdiag.convert.promotion import computed
from trtdiag.convert.registry import converter
from trtdiag.convert.writer import Writer
from trtdiag.network.builder import Value
from trtdiag.network.dtype import DType
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
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
    aten::reciprocal(Tensor self) -> Tensor
    aten::sin(Tensor self) -> Tensor
    aten::sinh(Tensor self) -> Tensor
    aten::sqrt(Tensor self) -> Tensor
    aten::tan(Tensor self) -> Tensor
    """
    op = UnaryOperation[{"reciprocal": "recip"}.get(call.op_name, call.op_name).upper()]
    return call.write.unary(op, call.operand("self", computed(call)))


@converter
def absolute_or_sign(call: Call) -> Value:
    """aten::abs(Tensor self) -> Tensor
    aten::sgn(Tensor self) -> Tensor
    aten::sign(Tensor self) -> Tensor
    """
    x, write = call.operand("self", computed(call)), call.write
    if x.dtype is DType.BOOL:  # it is its own absolute value and sign
        return x
    return write.unary(UnaryOperation.ABS, x) if call.op_name == "abs" else elementary.sign(write, x)


_COMPOSED: dict[str, Callable[[Writer, Value], Value]] = {
    "expm1": elementary.exp_less_one,
    "log1p": elementary.log_of_one_plus,
    "sinc": elementary.sine_cardinal,
    "deg2rad": lambda write, x: elementary.times(write, x, pi / 180),
    "rad2deg": lambda write, x: elementary.times(write, x, 180 / pi),
    "log2": lambda write, x: _logarithm(write, x, 2),
    "log10": lambda write, x: _logarithm(write, x, 10),
    "erfc": lambda write, x: write.elementwise(Op.SUB, write.scalar(1, x), write.unary(UnaryOperation.ERF, x)),
}


def _logarithm(write: Writer, x: Value, base: float) -> Value:
    """Divides by the logarithm of the base: powers of it come out whole more often than by a reciprocal."""
    logarithm = write.unary(UnaryOperation.LOG, x)
    return write.elementwise(Op.DIV, logarithm, write.scalar(log(base), x))


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
    return in_float32(call.write, lambda x: compose(call.write, x), call.operand("self", computed(call)))


@converter
def rsqrt(call: Call) -> Value:
    """aten::rsqrt(Tensor self) -> Tensor"""
    x = call.operand("self", computed(call))
    return call.write.unary(UnaryOperation.RECIP, call.write.unary(UnaryOperation.SQRT, x))


@converter
def neg(call: Call) -> Value:
    """aten::neg(Tensor self) -> Tensor"""
    return elementary.opposite(call.write, call.operand("self", computed(call)))


@converter
def exp2(call: Call) -> Value:
    """aten::exp2(Tensor self) -> Tensor"""
    x = call.operand("self", computed(call))
    return call.write.elementwise(Op.POW, call.write.scalar(2, x), x)


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
    return write.elementwise(Op.LESS, x, write.scalar(0, x))


@converter
def logit(call: Call) -> Value:
    """aten::logit(Tensor self, float? eps=None) -> Tensor"""
    write, eps = call.write, call.number_or_none("eps")

    def compose(x: Value) -> Value:
        if eps is not None:
            # As in PyTorch the lower bound counts first, also where an eps above one half makes it the greater one.
            low = write.elementwise(Op.LESS, x, write.scalar(eps, x))
            high = write.elementwise(Op.MIN, x, write.scalar(1 - eps, x))
            x = write.select(low, write.scalar(eps, x), high)
        rest = write.elementwise(Op.SUB, write.scalar(1, x), x)
        return write.unary(UnaryOperation.LOG, write.elementwise(Op.DIV, x, rest))

    return in_float32(write, compose, call.operand("self", computed(call)))
