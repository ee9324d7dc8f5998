"""Interval rules of ops that look values up or write into a tensor."""

from __future__ import annotations

from trtdiag.dtypes.call import Call, Result
from trtdiag.dtypes.interval_ops.arithmetic import times
from trtdiag.dtypes.interval_ops.registry import rule, some_of
from trtdiag.dtypes.value_span import Span, join


@rule("masked_fill")
def masked(call: Call) -> Result:
    """``masked_fill``: the tensor's values and the fill value."""
    return join((call.span("self").part(), call.span("value").part()))


@rule("scatter", "scatter_add", "index_put", "_unsafe_index_put", "index_add", "index_copy", "scatter_reduce")
@rule("slice_scatter", "select_scatter", "masked_scatter")
def written(call: Call) -> Result:
    """``scatter``, ``index_put`` and the like: the tensor's values and the written ones, or their sums."""
    base = call.span("self").part()
    name = next(name for name in ("src", "values", "value", "source") if call.has(name))
    source = call.span(name).part()
    adds = call.op in ("scatter_add", "index_add") or (call.has("accumulate") and call.arg("accumulate") is not False)
    if call.has("alpha") and call.arg("alpha") != 1:
        return Span(-float("inf"), float("inf"), f"{call.op} with alpha")
    if call.has("reduce") and call.arg("reduce") is not None:
        adds = call.arg("reduce") in ("sum", "add")
        if not adds and call.arg("reduce") not in ("amin", "amax"):
            return Span(-float("inf"), float("inf"), f"{call.op} with reduce={call.arg('reduce')}")
    if not adds:
        return join((base, source))
    _, count = call.length(name)
    low, high = base.low + min(0, times(source.low, count)), base.high + max(0, times(source.high, count))
    return Span(low, high, f"{call.op}: at most {count} values in {source} added up", root=base.root or source.root)


rule("gather", "index", "index_select", "_unsafe_index")(some_of("self"))
rule("embedding")(some_of("weight"))
rule("copy")(some_of("src"))
