"""The element at one place of the order: medians and k-th values."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert import Call, Writer, converter
from trtdiag.convert.layer_writers.reduction import reduced
from trtdiag.convert.layer_writers.topk import ordered, with_places
from trtdiag.network import DType, Value
from trtdiag.network.layers import ReduceOperation as Fold, TopKOperation
from trtdiag.shapes.shape_constraints import elements
from trtdiag.symbolic import Expr, add, floordiv, sub


@converter
def median(call: Call) -> Value:
    """aten::median(Tensor self) -> Tensor

    Of an even count the lower one, as in PyTorch.
    """
    write, x = call.write, call.tensor("self")
    return write.reshape(_middle(write, write.reshape(x, [elements(x.shape)]), 0)[0], [])


@converter
def median_over_dim(call: Call) -> Sequence[Value]:
    """aten::median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)

    Which of equal elements the index means is open, as in PyTorch.
    """
    return with_places(call, lambda x, axis: _middle(call.write, x, axis), keep_dims=call.flag("keepdim"))


@converter
def kth_value(call: Call) -> Sequence[Value]:
    """aten::kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    k, keep_dims = call.size("k"), call.flag("keepdim")
    return with_places(call, lambda x, axis: _kth(call.write, x, axis, k), keep_dims=keep_dims)


def _kth(write: Writer, x: Value, axis: int, k: Expr) -> tuple[Value, Value]:
    values, indices = ordered(write, x, axis, k, TopKOperation.MIN)
    return write.part(values, axis, sub(k, 1), 1), write.part(indices, axis, sub(k, 1), 1)


def _middle(write: Writer, x: Value, axis: int) -> tuple[Value, Value]:
    values, indices = _kth(write, x, axis, add(floordiv(sub(x.shape[axis], 1), 2), 1))
    if x.dtype.is_float:  # one element that is no number makes the median none; NaN is what differs from itself
        other = ~x.eq(x)
        spoiled = write.cast(reduced(write, Fold.MAX, write.cast(other, DType.INT32), [axis], True), DType.BOOL)
        values = write.select(spoiled, float("nan"), values)
    return values, indices
