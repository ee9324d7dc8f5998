"""The element at one place of the order: medians and k-th values."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.elementary import negated
from trtdiag.convert.layer_writers.reduction import reduced
from trtdiag.convert.layer_writers.topk import ordered
from trtdiag.convert.registry import converter
from trtdiag.convert.writer import Writer
from trtdiag.network.builder import Value
from trtdiag.network.dtype import DType
from trtdiag.network.facts import product
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.reduce import ReduceOperation as Fold
from trtdiag.network.layers.topk import TopKOperation
from trtdiag.symbolic import Expr, add, floordiv, sub


@converter
def median(call: Call) -> Value:
    """aten::median(Tensor self) -> Tensor

    Of an even count the lower one, as in PyTorch.
    """
    write, x = call.write, call.tensor("self")
    flat = write.reshape(x, [product(x.shape)])
    return write.reshape(_middle(write, flat, 0)[0], [])


@converter
def median_over_dim(call: Call) -> Sequence[Value]:
    """aten::median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)

    Which of equal elements the index means is open, as in PyTorch.
    """
    write, x = call.write, call.tensor("self")
    if x.rank == 0:
        return [x, write.number(0, _index_dtype(call))]
    axis = call.axis("dim", x.rank)
    return _results(call, axis, *_middle(write, x, axis))


@converter
def kth_value(call: Call) -> Sequence[Value]:
    """aten::kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    write, x = call.write, call.tensor("self")
    if x.rank == 0:
        return [x, write.number(0, _index_dtype(call))]
    axis = call.axis("dim", x.rank)
    return _results(call, axis, *_kth(write, x, axis, call.size("k")))


def _kth(write: Writer, x: Value, axis: int, k: Expr) -> tuple[Value, Value]:
    values, indices = ordered(write, x, axis, k, TopKOperation.MIN)
    return write.part(values, axis, sub(k, 1), 1), write.part(indices, axis, sub(k, 1), 1)


def _middle(write: Writer, x: Value, axis: int) -> tuple[Value, Value]:
    values, indices = _kth(write, x, axis, add(floordiv(sub(x.shape[axis], 1), 2), 1))
    if x.dtype.is_float:  # one element that is no number makes the median none; NaN is what differs from itself
        other = negated(write, write.elementwise(Op.EQUAL, x, x))
        spoiled = write.cast(reduced(write, Fold.MAX, write.cast(other, DType.INT32), [axis], True), DType.BOOL)
        values = write.select(spoiled, write.scalar(float("nan"), values), values)
    return values, indices


def _results(call: Call, axis: int, values: Value, indices: Value) -> Sequence[Value]:
    write = call.write
    if not call.flag("keepdim"):
        values, indices = write.squeeze(values, [axis]), write.squeeze(indices, [axis])
    return [values, write.cast(indices, _index_dtype(call))]


def _index_dtype(call: Call) -> DType:
    wanted = call.outputs[1]
    return call.write.index if wanted is None else wanted.dtype
