"""Interval rules of ops that move, repeat, drop or join values without changing them, look them up, or write them."""

from __future__ import annotations

from torch.fx import Node

from trtdiag.dtypes.call import Call, Result, dtype_of
from trtdiag.dtypes.interval_ops.arithmetic import times
from trtdiag.dtypes.interval_ops.registry import rule, some_of
from trtdiag.dtypes.value_span import Span, join, unknown

# fmt: off
# Every value is still there, so the ends are still reached.
KEEPING = frozenset({
    "alias", "clone", "contiguous", "detach", "expand", "expand_as", "flatten", "flip", "fliplr", "flipud",
    "lift_fresh", "lift_fresh_copy", "movedim", "numpy_T", "permute", "ravel", "repeat", "reshape", "reshape_as",
    "roll", "rot90", "squeeze", "swapaxes", "swapdims", "t", "tile", "transpose", "unflatten", "unsqueeze", "view",
    "view_as", "_unsafe_view", "broadcast_to", "atleast_1d", "atleast_2d", "atleast_3d", "pin_memory", "view_copy",
    "squeeze_copy", "unsqueeze_copy", "expand_copy", "permute_copy", "transpose_copy", "_reshape_alias",
    "positive", "resolve_conj", "resolve_neg", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
})

# Some values may be gone.
DROPPING = frozenset({
    "slice", "narrow", "select", "diagonal", "as_strided", "unfold", "masked_select", "take", "take_along_dim",
    "slice_copy", "select_copy", "max_pool2d", "unfold_copy", "reflection_pad1d", "reflection_pad2d",
    "reflection_pad3d", "replication_pad1d", "replication_pad2d", "replication_pad3d",
})
# fmt: on


@rule(*KEEPING)
def kept(call: Call) -> Result:
    """All values of the first argument; another dtype (``view.dtype``) reads the same bytes as other numbers."""
    first = call.first()
    if isinstance(first, Node) and dtype_of(first) != call.dtype:
        why = f"{call.op} reads the bytes as another dtype"
        return unknown(call.dtype, why, f"{call.node.name}: {why}")
    return call.span_of(first)


@rule(*DROPPING)
def dropped(call: Call) -> Result:
    """Some values of the first argument."""
    found = kept(call)
    return found.part() if isinstance(found, Span) else found


@rule("repeat_interleave")
def repeated(call: Call) -> Result:
    """``repeat_interleave``: the values, or without values the positions that the counts are at."""
    if call.has("self"):
        return dropped(call)
    _, count = call.length("repeats")
    return Span(0, max(0, count - 1), f"{call.op}: position among {count} counts")


@rule("dropout", "feature_dropout", "alpha_dropout")
def thinned(call: Call) -> Result:
    """``dropout``: nothing happens outside training, in training the rest is scaled."""
    if call.arg("train") is False:
        return kept(call)
    why = "dropout in training scales values"
    return unknown(call.dtype, why, f"{call.node.name}: {why}")


@rule("split", "split_with_sizes", "chunk", "unbind", "tensor_split", "unsafe_split")
def several(call: Call) -> Result:
    """``split``, ``chunk``, ``unbind``: every output holds some values of the first argument."""
    found = dropped(call)
    value = call.node.meta.get("val")
    count = len(value) if isinstance(value, (list, tuple)) else 1
    return (found,) * count if isinstance(found, Span) else found


@rule("cat", "concat", "concatenate", "stack", "hstack", "vstack", "column_stack")
def joined(call: Call) -> Result:
    """``cat`` and ``stack``: the values of all tensors."""
    return join(call.spans("tensors"))


@rule("broadcast_tensors", "meshgrid")
def broadcast(call: Call) -> Result:
    """``broadcast_tensors``, ``meshgrid``: one output for each input."""
    return tuple(call.spans("tensors"))


@rule("pad", "constant_pad_nd")
def padded(call: Call) -> Result:
    """The tensor's values and the fill value; the reflecting modes add nothing new."""
    if call.has("mode") and call.arg("mode") != "constant":
        return call.span("self")
    fill = call.arg("value")
    return join((call.span("self"), call.span_of(0 if fill is None else fill)))


@rule("tril", "triu")
def corner(call: Call) -> Result:
    """``tril``, ``triu``: the values and zero."""
    return join((call.span("self").part(), call.span_of(0)))


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
