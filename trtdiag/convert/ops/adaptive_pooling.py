"""Poolings to a given size, whose windows differ by an element where the size does not divide."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.pooling import lowest
from trtdiag.convert.layer_writers.variable_spans import Spans, even_spans, flat_index
from trtdiag.convert.refusal import refuse
from trtdiag.convert.registry import converter
from trtdiag.network.dtype import NUMBERS, DType
from trtdiag.network.layers.pooling import PaddingMode, Pooling, PoolingType
from trtdiag.network.layers.reduce import ReduceOperation
from trtdiag.network.value import Value
from trtdiag.symbolic import Expr, Num


@converter
def adaptive_average(call: Call) -> Value:
    """aten::adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor
    aten::adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor
    aten::adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor
    aten::_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor
    aten::_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor
    """
    write, x, dims = call.write, call.tensor("self"), call.dims
    if not x.dtype.is_float:
        raise refuse("integer-average", "no layer averages integers", "compute the average in float32")
    axes = range(x.rank - dims, x.rank)
    sizes = call.out.shape[-dims:]
    ones = [axis for axis, size in zip(axes, sizes, strict=True) if size == Num(1)]
    if len(ones) == dims:
        return write.reduce(ReduceOperation.AVG, x, ones, keep_dims=True)
    layer = _as_pooling(x, sizes, dims, PoolingType.AVERAGE) if dims > 1 and x.rank == dims + 2 else None
    if layer is not None:
        return write.add(layer, x)
    # PyTorch averages 16 bit types in float32.
    wide = write.cast(x, DType.FLOAT32)
    y = _along(call, wide, ReduceOperation.AVG, lambda found, value, axis: found.mean(write, value, axis))
    return write.cast(y, x.dtype)


@converter
def adaptive_greatest(call: Call) -> Sequence[Value]:
    """aten::adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)
    aten::adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)
    aten::adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)
    """
    write, x, dims = call.write, call.tensor("self"), call.dims
    if x.dtype not in NUMBERS:
        raise refuse("pooling-dtype", f"no layer pools {x.dtype.value}")
    indices = call.outputs[1]
    if indices is not None:
        return _with_indices(call, x, dims, indices.dtype)
    layer = _as_pooling(x, call.out.shape[-dims:], dims, PoolingType.MAX) if x.rank == dims + 2 else None
    if layer is not None and dims > 1 and x.dtype.is_float:
        return [write.add(layer, x)]
    low = lowest(x)
    return [_along(call, x, ReduceOperation.MAX, lambda found, value, axis: found.greatest(write, value, axis, low))]


def _with_indices(call: Call, x: Value, dims: int, dtype: DType) -> Sequence[Value]:
    """The greatest elements, and which of their dims of space each was, counted over all of them."""
    write = call.write
    index = flat_index(write, x, dims)
    for axis in reversed(range(x.rank - dims, x.rank)):
        found = even_spans(write, x.shape[axis], call.out.shape[axis])
        x, index = found.first_greatest(write, x, index, axis, lowest(x))
    return x, write.cast(index, dtype)


def _as_pooling(x: Value, sizes: Sequence[Expr], dims: int, op: PoolingType) -> Pooling | None:
    """A Pooling layer, where each size is a number that divides the input's."""
    window = []
    for whole, size in zip(x.shape[-dims:], sizes, strict=True):
        if not (isinstance(whole, Num) and isinstance(size, Num)) or not size.value or whole.value % size.value:
            return None
        window.append(int(whole.value // size.value))
    none = (0,) * dims
    return Pooling(op, tuple(window), tuple(window), none, none, PaddingMode.EXPLICIT_ROUND_DOWN)


def _along(call: Call, x: Value, whole: ReduceOperation, each: Callable[[Spans, Value, int], Value]) -> Value:
    """One dim after the other, the last first: all of it at once for one element, nothing where the size stays."""
    write = call.write
    for axis in reversed(range(x.rank - call.dims, x.rank)):
        size = call.out.shape[axis]
        if size == Num(1):
            x = write.reduce(whole, x, [axis], keep_dims=True)
        elif not write.builder.facts.equal(size, x.shape[axis]):
            x = each(even_spans(write, x.shape[axis], size), x, axis)
    return x
