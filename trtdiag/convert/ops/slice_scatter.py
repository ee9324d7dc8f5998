"""A part of a tensor replaced by another tensor."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.indices import fitted
from trtdiag.convert.layer_writers.negative_indices import clamped_start
from trtdiag.convert.layer_writers.scatter import rows_overwritten
from trtdiag.convert.registry import converter
from trtdiag.convert.writer import Writer
from trtdiag.network.value import Value
from trtdiag.symbolic import Expr, Num, add, sub


@converter
def slice_scatter(call: Call) -> Value:
    """aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None,
    SymInt step=1) -> Tensor
    """
    write, x, source = call.write, call.tensor("self"), call.tensor("src")
    axis, step = call.axis("dim", x.rank), call.integer("step")
    start = clamped_start(call.size_or_none("start") or Num(0), x.shape[axis], write.builder.facts)
    source = write.cast(source, x.dtype)
    if step == 1:
        return _between(write, x, source, axis, start)
    length = source.shape[axis]
    begin = int(start.value) if isinstance(start, Num) else write.sizes.scalar(start)
    index = write.counting(length, begin, step)
    rows = fitted(write, source, [*x.shape[:axis], length, *x.shape[axis + 1 :]])
    return rows_overwritten(write, x, index, rows, axis)


@converter
def select_scatter(call: Call) -> Value:
    """aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor"""
    write, x = call.write, call.tensor("self")
    axis = call.axis("dim", x.rank)
    start = clamped_start(call.size("index"), x.shape[axis], write.builder.facts)
    return _between(write, x, write.unsqueeze(write.cast(call.tensor("src"), x.dtype), [axis]), axis, start)


def _between(write: Writer, x: Value, source: Value, axis: int, start: Expr) -> Value:
    """``source`` between what stands before ``start`` and what stands after it."""
    size, length = x.shape[axis], source.shape[axis]
    source = fitted(write, source, [*x.shape[:axis], length, *x.shape[axis + 1 :]])
    end = add(start, length)
    rest = sub(size, end)
    parts: list[Value] = []
    if start != Num(0):
        parts.append(write.part(x, axis, 0, start))
    parts.append(source)
    if rest != Num(0):
        parts.append(write.part(x, axis, end, rest))
    return write.concat([write.cast(part, x.dtype) for part in parts], axis)
