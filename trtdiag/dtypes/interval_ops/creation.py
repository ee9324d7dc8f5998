"""Interval rules of ops that make tensors out of numbers."""

from __future__ import annotations

import math

from trtdiag.dtypes.call import Call, Result
from trtdiag.dtypes.interval_ops.registry import always, rule
from trtdiag.dtypes.value_span import Span, unknown


@rule("arange")
def arange(call: Call) -> Result:
    """From ``start`` (or 0) up to, never reaching, ``end``."""
    start_arg: object = call.arg("start") if call.has("start") else 0
    end_arg = call.arg("end")
    step_arg: object = call.arg("step") if call.has("step") else 1
    start, end, step = call.span_of(start_arg), call.span_of(end_arg), call.span_of(step_arg)
    low, high = min(start.low, end.low), max(start.high, end.high)
    if not call.dtype.is_floating_point and step.low > 0:
        # The last value is below the end by at least one; an empty range has no values at all.
        low, high = start.low, max(start.low, math.ceil(end.high) - 1)
    elif not call.dtype.is_floating_point and step.high < 0:
        low, high = min(start.high, math.floor(end.low) + 1), start.high
    text = f"arange({call.text(start_arg)}, {call.text(end_arg)})"
    if end.attained:
        # A range of written numbers holds its first and last one; with a step the last may be skipped.
        return Span(low, high, text, start.attained and step.low == step.high == 1 and start.low < end.low)
    bound = end.as_range().max
    if bound is None:
        text += f" with {call.text(end_arg)} unbounded"
        return Span(low, high, text, root=text)
    return Span(low, high, f"{text} with {call.text(end_arg)} <= {bound}")


@rule("full", "full_like", "new_full", "fill", "scalar_tensor")
def filled(call: Call) -> Result:
    """``full`` and ``fill``: one value everywhere."""
    name = next(name for name in ("fill_value", "value", "s") if call.has(name))
    value = call.span(name)
    return Span(value.low, value.high, f"filled with {call.text(call.arg(name))}", value.attained, value.root)


@rule("empty", "empty_like", "new_empty", "empty_strided", "empty_permuted")
def uninitialised(call: Call) -> Result:
    """``empty``: whatever was in memory, until something is written; of whole numbers the zeros of engines.

    What reads an element that nothing wrote has no result that could be kept.
    """
    why = "not initialised: any value until it is written"
    if not (call.dtype.is_floating_point or call.dtype.is_complex):
        return Span(0, 0, "not initialised: zeros in engines")
    return unknown(call.dtype, why, f"{call.node.name}: {why}")


@rule("randint", "randint_like")
def randint(call: Call) -> Result:
    """From ``low`` (or 0) up to, never reaching, ``high``."""
    low = call.span("low").low if call.has("low") else 0
    return Span(low, call.span("high").high - 1, "randint")


@rule("randperm")
def randperm(call: Call) -> Result:
    """All numbers below ``n``."""
    return Span(0, max(0, call.span("n").high - 1), "randperm")


@rule("tril_indices", "triu_indices")
def corner_indices(call: Call) -> Result:
    """``tril_indices``, ``triu_indices``: row and column numbers."""
    return Span(0, max(0, call.span("row").high - 1, call.span("col").high - 1), call.op)


@rule("iota")
def iota(call: Call) -> Result:
    """``start + step * i`` for ``i`` below ``length``."""
    start, step, count = call.span("start"), call.span("step"), call.span("length")
    steps = max(0, count.high - 1)
    return Span(
        start.low + min(0, step.low * steps), start.high + max(0, step.high * steps), f"iota of {call.text(count)}"
    )


@rule("linspace")
def linspace(call: Call) -> Result:
    """Between ``start`` and ``end``, both included."""
    start, end = call.span("start"), call.span("end")
    return Span(min(start.low, end.low), max(start.high, end.high), "linspace")


rule("zeros", "zeros_like", "new_zeros", "zero")(always(0, 0, "zeros"))
rule("ones", "ones_like", "new_ones")(always(1, 1, "ones"))
rule("eye", "one_hot")(always(0, 1, "{op}: 0 or 1"))
