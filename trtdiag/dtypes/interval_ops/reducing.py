"""Interval rules of reductions to values."""

from __future__ import annotations

from trtdiag.dtypes.call import Call, Result
from trtdiag.dtypes.interval_ops.arithmetic import extreme_of_two, summed, times
from trtdiag.dtypes.interval_ops.registry import rule, some_of
from trtdiag.dtypes.value_span import Span


def _dims(call: Call) -> object:
    return call.arg("dim") if call.has("dim") else None


@rule("sum")
def total(call: Call) -> Result:
    """``sum``: between none and all elements times the ends."""
    span = call.span("self")
    fewest, most = call.length("self", _dims(call))
    ends = [times(end, count) for end in (span.low, span.high) for count in (fewest, most)]
    return summed(call, min(ends), max(ends), span, most)


@rule("count_nonzero", "bincount")
def counted(call: Call) -> Result:
    """``count_nonzero``: none to all."""
    return Span(0, call.length("self", _dims(call))[1], "count of elements")


@rule("item", "_local_scalar_dense")
def number(call: Call) -> Result:
    """``item``: an element, and no more than what is known of the size that it becomes, be it assumed."""
    span, size = call.span("self").part(), call.size()
    if size is None:
        return span
    low, high = max(span.low, size.low), min(span.high, size.high)
    return size if low > high or (low, high) == (size.low, size.high) else Span(low, high, span.why, root=span.root)


@rule("min", "max")
def least_or_greatest(call: Call) -> Result:
    """``min``, ``max``: of two tensors, of all elements, or with the index along a dim."""
    return extreme_of_two(call) if call.has("other") else extreme(call)


@rule("median", "cummax", "cummin", "kthvalue", "mode")
def extreme(call: Call) -> Result:
    """Values and, along a dim, their indices."""
    value = call.span("self").part()
    if not isinstance(call.node.meta.get("val"), (list, tuple)):
        return value
    count = call.length("self", _dims(call))[1]
    return value, Span(0, max(0, count - 1), f"{call.op}: index below {count}")


@rule("aminmax")
def both_ends(call: Call) -> Result:
    """``aminmax``."""
    value = call.span("self").part()
    return value, value


rule("amin", "amax", "mean")(some_of("self"))
