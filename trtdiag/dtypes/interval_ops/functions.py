"""Interval rules of real functions of one argument, by their ends or by their own bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from trtdiag.dtypes.call import Call, Result, Rule
from trtdiag.dtypes.value_span import Real, Span


def _bounded(low: Real, high: Real) -> Rule:
    """Return the rule of a function whose values never leave ``low..high``."""
    return lambda call: Span(low, high, f"{call.op} is within {low}..{high}")


def _rising(function: Callable[[float], float], least: float, at_least: float) -> Rule:
    """Return the rule of a rising function that is defined from ``least`` on, where it is ``at_least``."""

    def rule(call: Call) -> Result:
        span = call.span("self")
        if span.low < least:
            # Not a number below there, and at ``least`` itself it may be infinite.
            return Span(-math.inf, math.inf, span.why, root=span.root)
        low = at_least if span.low == least else function(span.low)
        return Span(low, _at(function, span.high), f"{call.op} of {span}", root=span.root)

    return rule


def _at(function: Callable[[float], float], value: Real) -> float:
    try:
        return function(value)
    except OverflowError:
        return math.inf


def exponential(call: Call) -> Result:
    """``exp``: never negative, rising."""
    span = call.span("self")
    return Span(0, _at(math.exp, span.high), f"exp of {span}", root=span.root)


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("sigmoid", "softmax", "_softmax", "hardsigmoid"), _bounded(0, 1)),
    **dict.fromkeys(("tanh", "sin", "cos", "erf", "sgn"), _bounded(-1, 1)),
    "atan": _bounded(-2, 2),
    "atan2": _bounded(-4, 4),
    "exp": exponential,
    "sqrt": _rising(math.sqrt, 0.0, 0.0),
    "log": _rising(math.log, 0.0, -math.inf),
    "log2": _rising(math.log2, 0.0, -math.inf),
    "log10": _rising(math.log10, 0.0, -math.inf),
}
