"""The greatest and least element along a dim, and where it stands."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.reduction import reduced
from trtdiag.convert.layer_writers.topk import ordered
from trtdiag.convert.registry import converter
from trtdiag.network.builder import Value
from trtdiag.network.facts import product
from trtdiag.network.layers.reduce import ReduceOperation as Fold
from trtdiag.network.layers.topk import TopKOperation
from trtdiag.symbolic import Num

_FIRST = {"max": (TopKOperation.MAX, Fold.MAX), "min": (TopKOperation.MIN, Fold.MIN)}


@converter
def index_of_extreme(call: Call) -> Value:
    """aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor
    aten::argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor

    Of equal elements the first; TensorRT promises none of them.
    """
    x, write, op = call.tensor("self"), call.write, _FIRST[call.op_name.removeprefix("arg")][0]
    if x.rank == 0:
        return write.number(0, call.out.dtype)
    if call.has("dim"):
        indices = _place(call, x, call.axis("dim", x.rank), op, keep_dims=call.flag("keepdim"))[1]
    else:
        flat = write.reshape(x, [product(x.shape)])
        indices = write.reshape(_place(call, flat, 0, op, keep_dims=False)[1], call.out.shape)
    return write.cast(indices, call.out.dtype)


@converter
def extreme_with_index(call: Call) -> Sequence[Value]:
    """aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
    aten::min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)

    Of equal elements the first; TensorRT promises none of them.
    """
    x, write, (op, fold) = call.tensor("self"), call.write, _FIRST[call.op_name]
    keep, wanted = call.flag("keepdim"), call.outputs[1]
    if x.rank == 0:
        return [x, write.number(0, write.index if wanted is None else wanted.dtype)]
    axis = call.axis("dim", x.rank)
    if wanted is None:  # only the values are read
        return [reduced(write, fold, x, [axis], keep)]
    values, indices = _place(call, x, axis, op, keep_dims=keep)
    return [values, write.cast(indices, wanted.dtype)]


def _place(call: Call, x: Value, axis: int, op: TopKOperation, *, keep_dims: bool) -> tuple[Value, Value]:
    values, indices = ordered(call.write, x, axis, Num(1), op)
    if keep_dims:
        return values, indices
    return call.write.squeeze(values, [axis]), call.write.squeeze(indices, [axis])


@converter
def aminmax(call: Call) -> Sequence[Value]:
    """aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)"""
    x = call.tensor("self")
    axes = call.axes("dim", x.rank)
    return [reduced(call.write, fold, x, axes, call.flag("keepdim")) for fold in (Fold.MIN, Fold.MAX)]
