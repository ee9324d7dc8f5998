"""Functions of one element: exponentials, logarithms, roots, angles, signs."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers import elementary
from trtdiag.convert.layer_writers.compute_dtype import in_float32
from trtdiag.convert.promotion import computed
from trtdiag.convert.registry import Convert, converter, register
from trtdiag.convert.writer import Writer
from trtdiag.network.builder import Value
from trtdiag.network.dtype import DType
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.unary import UnaryOperation

_NATIVE = {
    "aten::acos(Tensor self) -> Tensor": UnaryOperation.ACOS,
    "aten::acosh(Tensor self) -> Tensor": UnaryOperation.ACOSH,
    "aten::asin(Tensor self) -> Tensor": UnaryOperation.ASIN,
    "aten::asinh(Tensor self) -> Tensor": UnaryOperation.ASINH,
    "aten::atan(Tensor self) -> Tensor": UnaryOperation.ATAN,
    "aten::atanh(Tensor self) -> Tensor": UnaryOperation.ATANH,
    "aten::cos(Tensor self) -> Tensor": UnaryOperation.COS,
    "aten::cosh(Tensor self) -> Tensor": UnaryOperation.COSH,
    "aten::erf(Tensor self) -> Tensor": UnaryOperation.ERF,
    "aten::exp(Tensor self) -> Tensor": UnaryOperation.EXP,
    "aten::log(Tensor self) -> Tensor": UnaryOperation.LOG,
    "aten::reciprocal(Tensor self) -> Tensor": UnaryOperation.RECIP,
    "aten::sin(Tensor self) -> Tensor": UnaryOperation.SIN,
    "aten::sinh(Tensor self) -> Tensor": UnaryOperation.SINH,
    "aten::sqrt(Tensor self) -> Tensor": UnaryOperation.SQRT,
    "aten::tan(Tensor self) -> Tensor": UnaryOperation.TAN,
}
# A bool is its own absolute value and sign.
_OR_BOOL: dict[str, Callable[[Writer, Value], Value]] = {
    "aten::abs(Tensor self) -> Tensor": lambda write, x: write.unary(UnaryOperation.ABS, x),
    "aten::sgn(Tensor self) -> Tensor": elementary.sign,
    "aten::sign(Tensor self) -> Tensor": elementary.sign,
}
_COMPOSED: dict[str, Callable[[Writer, Value], Value]] = {
    "aten::expm1(Tensor self) -> Tensor": elementary.exp_less_one,
    "aten::log1p(Tensor self) -> Tensor": elementary.log_of_one_plus,
    "aten::sinc(Tensor self) -> Tensor": elementary.sine_cardinal,
}
_LAST_BIT = "Computed from the natural logarithm: the last bit may differ."


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
def erfc(call: Call) -> Value:
    """aten::erfc(Tensor self) -> Tensor

    Computed as ``1 - erf(self)``: above 0.5 the error is at most 1e-7, but not relative to the result.
    """
    write = call.write

    def rest(x: Value) -> Value:
        return write.elementwise(Op.SUB, write.scalar(1, x), write.unary(UnaryOperation.ERF, x))

    return in_float32(write, rest, call.operand("self", computed(call)))


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


def _native(op: UnaryOperation) -> Convert:
    def run(call: Call) -> Value:
        return call.write.unary(op, call.operand("self", computed(call)))

    return run


def _or_bool(compose: Callable[[Writer, Value], Value]) -> Convert:
    def run(call: Call) -> Value:
        x = call.operand("self", computed(call))
        return x if x.dtype is DType.BOOL else compose(call.write, x)

    return run


def _composed(compose: Callable[[Writer, Value], Value]) -> Convert:
    def run(call: Call) -> Value:
        x = call.operand("self", computed(call))
        return in_float32(call.write, lambda value: compose(call.write, value), x)

    return run


def _scaled(factor: float) -> Convert:
    """A multiple of each element."""

    def run(call: Call) -> Value:
        x = call.operand("self", computed(call))
        return in_float32(call.write, lambda value: elementary.times(call.write, value, factor), x)

    return run


def _logarithm(base: float) -> Convert:
    """Divides by the logarithm of the base: powers of it come out whole more often than by a reciprocal."""

    def run(call: Call) -> Value:
        write = call.write

        def compose(x: Value) -> Value:
            logarithm = write.unary(UnaryOperation.LOG, x)
            return write.elementwise(Op.DIV, logarithm, write.scalar(log(base), x))

        return in_float32(write, compose, call.operand("self", computed(call)))

    return run


for _schema, _op in _NATIVE.items():
    register(_schema, _native(_op))
for _schema, _compose in _OR_BOOL.items():
    register(_schema, _or_bool(_compose))
for _schema, _compose in _COMPOSED.items():
    register(_schema, _composed(_compose))
register("aten::log2(Tensor self) -> Tensor", _logarithm(2), _LAST_BIT)
register("aten::log10(Tensor self) -> Tensor", _logarithm(10), _LAST_BIT)
register("aten::deg2rad(Tensor self) -> Tensor", _scaled(pi / 180))
register("aten::rad2deg(Tensor self) -> Tensor", _scaled(180 / pi))
