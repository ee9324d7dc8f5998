"""Elementary functions of complex numbers, element by element, from real ones of their parts."""

from __future__ import annotations

import math
from typing import Any

import torch

from trtdiag.lower.complex.arithmetic import magnitude, neg, operand, reciprocal, times
from trtdiag.lower.complex.pair import Call, Pair, on_pairs
from trtdiag.lower.template import UntraceableError

MOST_POWER = 16
"""A whole number as the exponent, up to which a power is a row of products."""


@on_pairs("pow")
def power(call: Call, **given: Any) -> Pair:
    """Products for whole exponents up to 16, else exp(exponent * log x)."""
    base, exponent = given["self"], given["exponent"]
    if isinstance(base, (int, float)) and base > 0:
        return exp(call, self=times(exponent, math.log(base)))
    if not isinstance(base, Pair):
        raise UntraceableError("it raises what is real to a complex power")
    if isinstance(exponent, (int, float)) and float(exponent).is_integer() and 1 <= exponent <= MOST_POWER:
        made, step, left = None, base, int(exponent)
        while left:
            if left % 2:
                made = step if made is None else times(made, step)
            left //= 2
            step = times(step, step) if left else step
        assert made is not None
        return call.pair(made)
    if isinstance(exponent, (int, float, complex)) and not exponent:
        raise UntraceableError("its exponent is 0")
    return exp(call, self=times(log(call, self=call.pair(base)), operand(call, exponent)))


@on_pairs("exp")
def exp(call: Call, **given: Any) -> Pair:
    """Exp of the real part times cosine and sine of the other."""
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


@on_pairs("tan", "tanh")
def tangent(call: Call, **given: Any) -> Pair:
    """Sine and hyperbolic sine of twice the parts over the sum of both cosines, in what does not overflow."""
    x = given["self"]
    wave, decay = (x.real, x.imag) if call.op._schema.name == "aten::tan" else (x.imag, x.real)
    # With e = exp(-2|d|): sinh 2d / (cosh 2d + cos 2w) = (1 - e^2) / ((1 - e)^2 + 4 e cos^2 w), up to the sign of d.
    e = (-2 * decay.abs()).exp()
    below = (-2 * decay.abs()).expm1().square() + 4 * e * wave.cos().square()
    steep, even = decay.sign() * -(-4 * decay.abs()).expm1() / below, 2 * e * (2 * wave).sin() / below
    return Pair(even, steep) if call.op._schema.name == "aten::tan" else Pair(steep, even)


@on_pairs("rsqrt")
def rsqrt(call: Call, **given: Any) -> Pair:
    """1 / sqrt(x)."""
    return reciprocal(call, self=sqrt(call, **given))


@on_pairs("sigmoid")
def sigmoid(call: Call, **given: Any) -> Pair:
    """1 / (1 + exp(-x))."""
    power = exp(call, self=neg(call, **given))
    return reciprocal(call, self=Pair(power.real + 1, power.imag))
