"""Sorting, the first in order, and the middle."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.topk import ordered, with_places
from trtdiag.convert.registry import converter
from trtdiag.network.layers.topk import TopKOperation
from trtdiag.network.value import Value

_END = {False: TopKOperation.MIN, True: TopKOperation.MAX}


@converter
def topk(call: Call) -> Sequence[Value]:
    """aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor
    indices)

    Sorted also where that was not asked for; which of equal elements comes first is open, as in PyTorch.
    """
    op = _END[call.flag("largest")]
    return with_places(call, lambda x, axis: ordered(call.write, x, axis, call.size("k"), op))


@converter
def sort(call: Call) -> Sequence[Value]:
    """aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)
    aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor
        indices)

    At most 3840 elements. The reference keeps the order of equal elements; TensorRT does not promise it.
    """
    op = _END[call.flag("descending")]
    return with_places(call, lambda x, axis: ordered(call.write, x, axis, x.shape[axis], op))


@converter
def argsort(call: Call) -> Value:
    """aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor
    aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor

    At most 3840 elements. The reference keeps the order of equal elements; TensorRT does not promise it.
    """
    x = call.tensor("self")
    if x.rank == 0:
        return call.write.number(0, call.out.dtype)
    axis = call.axis("dim", x.rank)
    return call.write.cast(
        ordered(call.write, x, axis, x.shape[axis], _END[call.flag("descending")])[1], call.out.dtype
    )
