"""Arithmetic and elementary functions of complex numbers, element by element."""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch import Tensor

from trtdiag.lower.complex.pair import Call, Pair, on_pairs
from trtdiag.lower.template import UntraceableError, written_size


def times(left: Pair, right: Any) -> Pair:
    """The product of a pair with a pair, a complex number, or a real tensor or number."""
    if isinstance(right, complex):
        right = Pair(right.real, right.imag)
    if not isinstance(right, Pair):
        return Pair(left.real * right, left.imag * right)
    return Pair(left.real * right.real - left.imag * right.imag, left.real * right.imag + left.imag * right.real)


def magnitude(x: Pair) -> Tensor:
    """|x|, without overflow on the way."""
    return torch.hypot(x.real, x.imag)


def _operand(call: Call, value: Any) -> Any:
    """An operand in the dtype of the result; real ones stay real."""
    return call.pair(value) if isinstance(value, Pair) else call.cast(value)


def _both(call: Call, given: dict[str, Any]) -> tuple[Any, Any]:
    return _operand(call, given["self"]), _operand(call, given["other"])


def _imag(value: Any) -> Any:
    """The imaginary part of an operand, ``None`` where it is real."""
    return value.imag if isinstance(value, (Pair, complex)) else None


def _real(value: Any) -> Any:
    return value.real if isinstance(value, (Pair, complex)) else value


def spread(part: Tensor, like: Tensor) -> Tensor:
    """A part in the shape of another, which it broadcasts to."""
    if [*map(written_size, part.shape)] == [*map(written_size, like.shape)]:
        return part
    return part.expand(like.shape)


@on_pairs("add", "sub", "rsub")
def add(call: Call, **given: Any) -> Pair:
    """The parts added, or subtracted; what is real has no share in the imaginary one."""
    left, right = _both(call, given)
    name, alpha = call.op._schema.name, given.get("alpha", 1)
    if name == "aten::rsub":
        left, right = right, left
    if isinstance(alpha, complex):
        raise UntraceableError("its alpha is complex")
    if alpha != 1:
        right = times(right, alpha) if isinstance(right, Pair) else right * alpha
    join = operator.add if name == "aten::add" else operator.sub
    real = join(_real(left), _real(right))
    first, second = _imag(left), _imag(right)
    if first is None:
        imag = second if join is operator.add else -second
    else:
        imag = first if second is None else join(first, second)
    return Pair(real, spread(imag, real) if isinstance(imag, Tensor) else torch.full_like(real, imag))


@on_pairs("mul")
def mul(call: Call, **given: Any) -> Pair:
    """Four products, or two where one operand is real."""
    left, right = _both(call, given)
    if isinstance(left, Pair):
        return times(left, right)
    if isinstance(right, Pair):
        return times(right, left)
    return Pair(left * right.real, left * right.imag)  # a real tensor times a complex number


@on_pairs("div", "true_divide")
def div(call: Call, **given: Any) -> Pair:
    """A product with the reciprocal; by what is real, each part."""
    left, right = _both(call, given)
    if isinstance(right, complex):
        inverse = 1 / right
        return times(left, inverse) if isinstance(left, Pair) else Pair(left * inverse.real, left * inverse.imag)
    if not isinstance(right, Pair):
        return Pair(left.real / right, left.imag / right)
    # Scaled by the larger part, as PyTorch does: squares of parts beyond 1e19 are infinite, below 1e-23 nothing.
    scale = torch.maximum(right.real.abs(), right.imag.abs())
    c, d = right.real / scale, right.imag / scale
    below = (c * c + d * d) * scale
    top = times(Pair(c, -d), left)
    return Pair(top.real / below, top.imag / below)


@on_pairs("reciprocal")
def reciprocal(call: Call, **given: Any) -> Pair:
    """1 / x."""
    return div(call, self=1.0, other=given["self"])


@on_pairs("neg")
def neg(call: Call, **given: Any) -> Pair:
    """The parts negated."""
    return Pair(-given["self"].real, -given["self"].imag)


@on_pairs("conj", "_conj", "_conj_copy", "conj_physical", "_conj_physical")
def conj(call: Call, **given: Any) -> Pair:
    """The imaginary part negated."""
    return Pair(given["self"].real, -given["self"].imag)


@on_pairs("resolve_conj")
def resolve_conj(call: Call, **given: Any) -> Pair:
    """The pair itself: a conjugate has been computed where it was asked for."""
    return given["self"]  # type: ignore[no-any-return]  # a pair


@on_pairs("mH", "adjoint", "matrix_H")
def adjoint(call: Call, **given: Any) -> Pair:
    """The conjugate with its last two dims exchanged."""
    return Pair(given["self"].real.transpose(-2, -1), -given["self"].imag.transpose(-2, -1))


@on_pairs("_neg_view")
def neg_view(call: Call, **given: Any) -> Any:
    """The negative, computed."""
    return neg(call, **given)


@on_pairs("square")
def square(call: Call, **given: Any) -> Pair:
    """x times x."""
    return times(given["self"], given["self"])


MOST_POWER = 16
"""A whole number as the exponent, up to which a power is a row of products."""


@on_pairs("pow")
def power(call: Call, **given: Any) -> Pair:
    """Products for whole exponents up to 16, else exp(exponent * log x)."""
    base, exponent = given["self"], given["exponent"]
    if not isinstance(base, Pair):
        raise UntraceableError("it raises a real number to a complex power")
    if isinstance(exponent, (int, float)) and float(exponent).is_integer() and 1 <= exponent <= MOST_POWER:
        made, step, left = None, base, int(exponent)
        while left:
            if left % 2:
                made = step if made is None else times(made, step)
            left //= 2
            step = times(step, step) if left else step
        assert made is not None
        return call.pair(made)
    if isinstance(exponent, (int, float)) and not isinstance(exponent, bool) and exponent:
        logarithm = log(call, self=call.pair(base))
        return exp(call, self=times(logarithm, exponent))
    raise UntraceableError("its exponent is no number that is known when it is compiled, or complex")


@on_pairs("abs")
def absolute(call: Call, **given: Any) -> Tensor:
    """The length."""
    return magnitude(given["self"])


@on_pairs("angle")
def angle(call: Call, **given: Any) -> Tensor:
    """The angle, from -pi to pi."""
    return torch.atan2(given["self"].imag, given["self"].real)


@on_pairs("sgn")
def sgn(call: Call, **given: Any) -> Pair:
    """x / |x|, and 0 for 0."""
    x = given["self"]
    length = magnitude(x)
    length = torch.where(length == 0, torch.ones_like(length), length)
    return Pair(x.real / length, x.imag / length)


@on_pairs("complex")
def of_parts(call: Call, **given: Any) -> Pair:
    """The parts as they are, broadcast to one another."""
    real, imag = given["real"], given["imag"]
    if [*map(written_size, real.shape)] == [*map(written_size, imag.shape)]:
        return Pair(real, imag)
    return Pair(*torch.broadcast_tensors(real, imag))


@on_pairs("polar")
def polar(call: Call, **given: Any) -> Pair:
    """Cosine and sine of the angle times the length."""
    return Pair(given["abs"] * given["angle"].cos(), given["abs"] * given["angle"].sin())


@on_pairs("exp")
def exp(call: Call, **given: Any) -> Pair:
    """exp of the real part times cosine and sine of the other."""
    x = given["self"]
    return Pair(x.real.exp() * x.imag.cos(), x.real.exp() * x.imag.sin())


@on_pairs("log", "log2", "log10")
def log(call: Call, **given: Any) -> Pair:
    """The logarithm of the length, and the angle."""
    x = given["self"]
    base = {"aten::log2": math.log(2), "aten::log10": math.log(10)}.get(call.op._schema.name)
    made = Pair(magnitude(x).log(), torch.atan2(x.imag, x.real))
    return made if base is None else times(made, 1 / base)


@on_pairs("sqrt")
def sqrt(call: Call, **given: Any) -> Pair:
    """The root with a real part that is not negative."""
    x = given["self"]
    length = magnitude(x)
    # The sum of what has one sign, and of the other part what follows from it: no digits cancel.
    large = ((length + x.real.abs()) / 2).sqrt()
    small = x.imag.abs() / 2 / torch.where(large == 0, torch.ones_like(large), large)
    right = x.real >= 0
    imag = torch.where(right, small, large)
    return Pair(torch.where(right, large, small), torch.where(x.imag < 0, -imag, imag))


@on_pairs("sin", "sinh", "cos", "cosh")
def waves(call: Call, **given: Any) -> Pair:
    """Products of the real functions of the parts."""
    x, name = given["self"], call.op._schema.name
    if name == "aten::sin":
        return Pair(x.real.sin() * x.imag.cosh(), x.real.cos() * x.imag.sinh())
    if name == "aten::cos":
        return Pair(x.real.cos() * x.imag.cosh(), -x.real.sin() * x.imag.sinh())
    if name == "aten::sinh":
        return Pair(x.real.sinh() * x.imag.cos(), x.real.cosh() * x.imag.sin())
    return Pair(x.real.cosh() * x.imag.cos(), x.real.sinh() * x.imag.sin())


@on_pairs("eq", "ne")
def equal(call: Call, **given: Any) -> Tensor:
    """Whether both parts are equal, or one is not."""
    left, right = (value if isinstance(value, Pair) else _of_real(value) for value in (given["self"], given["other"]))
    same: Tensor = (left.real == right.real) & (left.imag == right.imag)
    return same if call.op._schema.name == "aten::eq" else ~same


def _of_real(value: Any) -> Pair:
    return Pair(value, torch.zeros_like(value)) if isinstance(value, Tensor) else Pair(value.real, value.imag)


@on_pairs("isfinite", "isnan", "isinf")
def kind(call: Call, **given: Any) -> Tensor:
    """Asked of either part: finite are both, nan or infinite is one."""
    real, imag = call.real(self=given["self"].real), call.real(self=given["self"].imag)
    made: Tensor = real & imag if call.op._schema.name == "aten::isfinite" else real | imag
    return made
