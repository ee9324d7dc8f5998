"""Interval rules of real functions of one argument, casts and roundings, by their ends or by their own bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch

from trtdiag.dtypes.call import Call, Result, Rule
from trtdiag.dtypes.interval_ops.registry import always, rule
from trtdiag.dtypes.value_span import Real, Span, is_finite, limits, to_integers


def _rising(function: Callable[[float], float], at_zero: float) -> Rule:
    """Return the rule of a rising function that is defined from 0 on, where it is ``at_zero``."""

    def rising(call: Call) -> Result:
        span = call.span("self")
        if span.low < 0:
            # Not a number below there, and at 0 itself it may be infinite.
            return Span(-math.inf, math.inf, span.why, root=span.root)
        low, high = (at_zero if end == 0 else _at(function, end) for end in (span.low, span.high))
        if high == -math.inf:  # of zeros alone, and nothing could be worked out of that
            high = math.inf
        return Span(low, high, f"{call.op} of {span}", root=span.root)

    return rising


def _at(function: Callable[[float], float], value: Real) -> float:
    try:
        return function(value)
    except OverflowError:
        return math.inf


@rule("exp")
def exponential(call: Call) -> Result:
    """``exp``: never negative, rising."""
    span = call.span("self")
    return Span(0, _at(math.exp, span.high), f"exp of {span}", root=span.root)


rule("sigmoid", "softmax", "_softmax", "hardsigmoid")(always(0, 1, "{op} is within 0..1"))
rule("tanh", "sin", "cos", "erf", "sgn")(always(-1, 1, "{op} is within -1..1"))
rule("atan")(always(-2, 2, "{op} is within -2..2"))
rule("atan2")(always(-4, 4, "{op} is within -4..4"))
rule("sqrt")(_rising(math.sqrt, 0.0))
rule("log")(_rising(math.log, -math.inf))
rule("log2")(_rising(math.log2, -math.inf))
rule("log10")(_rising(math.log10, -math.inf))


@rule("to", "_to_copy", "type_as", "convert_element_type")
def cast(call: Call) -> Result:
    """The same values in another dtype: floats are cut off, integers that do not fit wrap around."""
    span = call.span_of(call.first())
    dtype = call.dtype
    if dtype == torch.bool:
        return Span(0, 1, "converted to bool")
    if dtype.is_floating_point:
        return span
    if not is_finite(span.low, span.high) and limits(dtype) != (span.low, span.high):
        low, high = limits(dtype)
        return Span(low, high, "converted from float, any value", root=span.root)
    return to_integers(span)


@rule("floor", "ceil", "round", "trunc", "fix")
def whole(call: Call) -> Result:
    """``floor``, ``ceil``, ``round``, ``trunc``: never further than the next whole number."""
    span = call.span("self")
    if not is_finite(span.low, span.high):
        return span
    return replace(span, low=math.floor(span.low), high=math.ceil(span.high), attained=False)


@rule("relu")
def rectified(call: Call) -> Result:
    """``relu``: nothing below zero."""
    span = call.span("self")
    return replace(span, low=max(0, span.low), high=max(0, span.high), attained=False)
