"""Interval rules of ops that return positions: never negative, below the size of a dim."""

from __future__ import annotations

from trtdiag.dtypes.call import Call, Result
from trtdiag.dtypes.interval_ops.registry import rule
from trtdiag.dtypes.value_span import INT64_MAX, Span, join


def _below(call: Call, count: int) -> Span:
    unbounded = count >= INT64_MAX
    why = f"{call.op}: index below {'an unbounded size' if unbounded else count}"
    return Span(0, max(0, count - 1), why, root=why if unbounded else "")


@rule("argmax", "argmin", "argsort")
def position(call: Call) -> Result:
    """``argmax``, ``argmin``, ``argsort``: along a dim, or over all elements."""
    return _below(call, call.length("self", call.arg("dim"))[1])


@rule("sort", "topk")
def ordered(call: Call) -> Result:
    """``sort``, ``topk``: values and their indices along a dim."""
    dim = call.arg("dim")
    return call.span("self").part(), _below(call, call.length("self", -1 if dim is None else dim)[1])


@rule("nonzero", "nonzero_static", "argwhere")
def nonzero(call: Call) -> Result:
    """One column a dim, each below that dim's size."""
    counts = _counts(call, "self")
    found = _below(call, max(counts, default=1))
    if not call.has("fill_value"):
        return found
    return join((found, call.span("fill_value").part()))


@rule("where")
def either(call: Call) -> Result:
    """``where``: one operand or the other; with a condition alone, the positions where it holds, dim by dim."""
    if call.has("self"):
        return join((call.span("self"), call.span("other")))
    return tuple(_below(call, count) for count in _counts(call, "condition"))


def _counts(call: Call, name: str) -> list[int]:
    found = call.sizes(name)
    if found is None:
        return [INT64_MAX]
    return [INT64_MAX if size.range.max is None else size.range.max for size in found.dims]


@rule("searchsorted", "bucketize")
def inserted(call: Call) -> Result:
    """``searchsorted``, ``bucketize``: from 0 up to and with the count of boundaries."""
    name = "sorted_sequence" if call.has("sorted_sequence") else "boundaries"
    _, count = call.length(name, -1)
    return Span(0, count, f"{call.op}: position among {count} boundaries")


@rule("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d")
def pooled(call: Call) -> Result:
    """``max_pool2d_with_indices``: values, and flat positions in the input's plane."""
    spatial = 3 if "3d" in call.op else 2 if "2d" in call.op else 1
    _, count = call.length("self", tuple(range(-spatial, 0)))
    return call.span("self").part(), _below(call, count)


@rule("multinomial")
def drawn(call: Call) -> Result:
    """``multinomial``: a column of the weights."""
    return _below(call, call.length("self", -1)[1])


@rule("_unique2", "unique_dim", "unique_consecutive", "_unique")
def unique(call: Call) -> Result:
    """Values, where each element went, how often each occurs."""
    _, count = call.length("self")
    return call.span("self").part(), _below(call, count), Span(0, count, f"{call.op}: count of elements")
