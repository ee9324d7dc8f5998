"""Arithmetic of complex numbers, element by element."""

from __future__ import annotations

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


def operand(call: Call, value: Any) -> Any:
    """An operand in the dtype of the result; real ones stay real."""
    return call.pair(value) if isinstance(value, Pair) else call.cast(value)


def _both(call: Call, given: dict[str, Any]) -> tuple[Any, Any]:
    return operand(call, given["self"]), operand(call, given["other"])


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
    """X times x."""
    return times(given["self"], given["self"])


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
    """X / |x|, and 0 for 0."""
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
    shape = torch.broadcast_shapes(real.shape, imag.shape)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return Pair(real.expand(shape), imag.expand(shape))


@on_pairs("polar")
def polar(call: Call, **given: Any) -> Pair:
    """Cosine and sine of the angle times the length."""
    return Pair(given["abs"] * given["angle"].cos(), given["abs"] * given["angle"].sin())


@on_pairs("addcmul", "addcdiv")
def add_product(call: Call, **given: Any) -> Pair:
    """What is added, and the product or quotient times a number."""
    join = mul if call.op._schema.name == "aten::addcmul" else div
    made = join(call, self=_pair_of_one(call, given), other=given["tensor2"])
    return _sum(call, given["self"], times(made, given["value"]))


def _pair_of_one(call: Call, given: dict[str, Any]) -> Any:
    both_real = not isinstance(given["tensor1"], Pair) and not isinstance(given["tensor2"], Pair)
    return call.pair(given["tensor1"]) if both_real else given["tensor1"]


@on_pairs("lerp")
def lerp(call: Call, **given: Any) -> Pair:
    """The start and a share of the way to the end."""
    start = call.pair(given["self"])
    way = _sum(call, call.pair(given["end"]), neg(call, self=start))
    return _sum(call, start, times(way, operand(call, given["weight"])))


def _sum(call: Call, left: Any, right: Pair) -> Pair:
    left = call.pair(left)
    return Pair(left.real + right.real, left.imag + right.imag)


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
