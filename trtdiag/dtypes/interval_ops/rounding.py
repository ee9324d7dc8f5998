"""Interval rules of casts and of rounding."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from trtdiag.dtypes.call import Call, Result
from trtdiag.dtypes.interval_ops.registry import rule
from trtdiag.dtypes.value_span import Span, is_finite, limits, to_integers


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
