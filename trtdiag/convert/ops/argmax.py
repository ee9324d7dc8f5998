"""The greatest and least element along a dim, and where it stands."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert import Call, converter
from trtdiag.convert.layer_writers.reduction import reduced
from trtdiag.convert.layer_writers.topk import ordered, with_places
from trtdiag.network.layers import ReduceOperation as Fold, TopKOperation
from trtdiag.network.value import Value
from trtdiag.shapes.shape_constraints import elements
from trtdiag.symbolic import Num

_FIRST = {"max": (TopKOperation.MAX, Fold.MAX), "min": (TopKOperation.MIN, Fold.MIN)}


@converter
def extreme(call: Call) -> Sequence[Value]:
    """aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor
    aten::argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor
    aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
    aten::min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)

    Of equal elements the first; TensorRT promises none of them.
    """
    x, write, (op, fold) = call.tensor("self"), call.write, _FIRST[call.op_name.removeprefix("arg")]
    if x.rank and call.outputs[-1] is None:  # only the values are read
        return [reduced(write, fold, x, [call.axis("dim", x.rank)], call.flag("keepdim"))]
    if x.rank and not call.has("dim"):
        flat = ordered(write, write.reshape(x, [elements(x.shape)]), 0, Num(1), op)[1]
        return [write.cast(write.reshape(flat, call.out.shape), call.out.dtype)]
    return with_places(call, lambda x, axis: ordered(write, x, axis, Num(1), op), keep_dims=call.flag("keepdim"))


@converter
def aminmax(call: Call) -> Sequence[Value]:
    """aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)"""
    x = call.tensor("self")
    axes = call.axes("dim", x.rank)
    return [reduced(call.write, fold, x, axes, call.flag("keepdim")) for fold in (Fold.MIN, Fold.MAX)]
