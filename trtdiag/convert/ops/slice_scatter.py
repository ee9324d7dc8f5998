"""A part of a tensor replaced by another tensor."""

from __future__ import annotations

from trtdiag.convert import Call, converter
from trtdiag.convert.layer_writers.indices import clamped_start, fitted
from trtdiag.convert.layer_writers.scatter_update import rows_overwritten
from trtdiag.network.value import Value
from trtdiag.symbolic import Num, add, sub


@converter
def part_replaced(call: Call) -> Value:
    """aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None,
        SymInt step=1) -> Tensor
    aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor
    """
    write, x, picks = call.write, call.tensor("self"), "index" in call.arguments
    axis, source = call.axis("dim", x.rank), write.cast(call.tensor("src"), x.dtype)
    source = write.unsqueeze(source, [axis]) if picks else source
    first = call.size("index") if picks else call.size_or_none("start") or Num(0)
    start, length = clamped_start(first, x.shape[axis], write.builder.facts), source.shape[axis]
    source = fitted(write, source, [*x.shape[:axis], length, *x.shape[axis + 1 :]])
    step = 1 if picks else call.integer("step")
    if step != 1:
        begin = int(start.value) if isinstance(start, Num) else write.sizes.scalar(start)
        return rows_overwritten(write, x, write.counting(length, begin, step), source, axis)
    # Between what stands before its start and what stands after it.
    end = add(start, length)
    parts = [source] if start == Num(0) else [write.part(x, axis, 0, start), source]
    if end != x.shape[axis]:
        parts.append(write.part(x, axis, end, sub(x.shape[axis], end)))
    return write.concat(parts, axis)
