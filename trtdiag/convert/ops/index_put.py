"""Elements and slices put to indexed places."""

from __future__ import annotations

from trtdiag.convert import Call, Writer, converter
from trtdiag.convert.layer_writers.indices import counted_from_the_front, fitted, inverse, moved, with_dims
from trtdiag.convert.layer_writers.masked_values import chosen_by_mask, one_to_each, only_mask
from trtdiag.convert.layer_writers.reduction import precise, wide
from trtdiag.convert.layer_writers.scatter import folded_by_row
from trtdiag.convert.layer_writers.scatter_update import overwritten, rows_overwritten
from trtdiag.convert.layer_writers.selection import selection
from trtdiag.network import DType, Value
from trtdiag.network.layers import ElementWiseOperation as Op, ReduceOperation as Fold, ScatterMode
from trtdiag.shapes.shape_constraints import elements


@converter
def index_put(call: Call) -> Value:
    """aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor
    aten::_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor

    With a mask: one value for all of its places, or as many as another op chose with the same mask.
    """
    write, x, values = call.write, call.tensor("self"), call.tensor("values")
    mask = only_mask(call)
    each = None if mask is None else one_to_each(x, mask, values)
    if mask is not None and each is None:
        return chosen_by_mask(call, x, mask, values)
    chosen = selection(call, x, result=each)
    shape = chosen.result_shape(x)
    values = fitted(write, values, shape[len(shape) - values.rank :])
    values = chosen.at_front(write, write.broadcast_to(values, shape))
    there = write.permute(x, chosen.front)
    if call.flag("accumulate"):
        depth, count = len(chosen.axes), elements(chosen.shape)
        index = write.reshape(chosen.linear(write, x), [count])
        made = _added(write, there, depth, index, write.reshape(values, [count, elements(there.shape[depth:])]))
    else:
        made = overwritten(write, there, chosen.positions(write), values, ScatterMode.ND)
    return write.permute(made, inverse(chosen.front))


def _added(write: Writer, there: Value, depth: int, index: Value, rows: Value) -> Value:
    """``there`` with rows (m, r) added at an index (m) into its first ``depth`` dims taken as one."""
    fold, join = (Fold.MAX, Op.MAX) if there.dtype is DType.BOOL else (Fold.SUM, Op.SUM)
    dtype = precise(wide(there.dtype))
    sums, _ = folded_by_row(write, index, write.cast(rows, dtype), elements(there.shape[:depth]), fold)
    made = write.elementwise(join, write.cast(there, dtype), write.reshape(sums, there.shape))
    return write.cast(made, there.dtype)


@converter
def index_copy(call: Call) -> Value:
    """aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor"""
    return _copied(call, call.tensor("source"))


@converter
def index_fill(call: Call) -> Value:
    """aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor
    aten::index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor
    """
    write, x = call.write, with_dims(call.write, call.tensor("self"))
    index = with_dims(write, call.tensor("index"))
    axis, value = call.axis("dim", x.rank), write.reshape(call.operand("value", x.dtype), [])
    return _copied(call, write.broadcast_to(value, [*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :]]))


def _copied(call: Call, source: Value) -> Value:
    write, x = call.write, call.tensor("self")
    there, index, axis = with_dims(write, x), with_dims(write, call.tensor("index")), call.axis("dim", x.rank)
    index = counted_from_the_front(write, index, there.shape[axis], call.held.get("index"))
    rows = _rows(write, source, there, index, axis)
    return write.reshape(rows_overwritten(write, there, index, rows, axis), x.shape)


def _rows(write: Writer, source: Value, there: Value, index: Value, axis: int) -> Value:
    """The source with as many rows across a dim as there are indices; one without dims is one element."""
    shape = [*there.shape[:axis], index.shape[0], *there.shape[axis + 1 :]]
    return fitted(write, source, shape) if source.rank == there.rank else write.reshape(source, shape)


@converter
def index_add(call: Call) -> Value:
    """aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"""
    write, x = call.write, call.tensor("self")
    there, index, axis = with_dims(write, x), with_dims(write, call.tensor("index")), call.axis("dim", x.rank)
    alpha, source = call.number("alpha"), call.tensor("source")
    if x.dtype is DType.BOOL and not alpha:
        return x
    if x.dtype is not DType.BOOL and alpha != 1:
        dtype = precise(wide(source.dtype))
        source = write.cast(source, dtype) * write.number(alpha, dtype)
    order = moved(there.rank, axis, 0)
    front = write.permute(there, order)
    rows = write.permute(_rows(write, source, there, index, axis), order)
    rows = write.reshape(rows, [index.shape[0], elements(front.shape[1:])])
    made = _added(write, front, 1, index, rows)
    return write.reshape(write.permute(made, inverse(order)), x.shape)
