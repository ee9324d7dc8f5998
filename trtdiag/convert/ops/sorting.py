"""Sorting, the first in order, and the middle."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.topk import ordered
from trtdiag.convert.registry import converter
from trtdiag.network.builder import Value
from trtdiag.network.layers.topk import TopKOperation
from trtdiag.symbolic import Expr, Num


@converter
def topk(call: Call) -> Sequence[Value]:
    """aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor
    indices)

    Sorted also where that was not asked for; which of equal elements comes first is open, as in PyTorch.
    """
    return _ordered(call, call.size("k"), descending=call.flag("largest"))


@converter
def sort(call: Call) -> Sequence[Value]:
    """aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)
    aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor
        indices)

    At most 3840 elements. The reference keeps the order of equal elements; TensorRT does not promise it.
    """
    x = call.tensor("self")
    count = x.shape[call.axis("dim", x.rank)] if x.rank else Num(1)
    return _ordered(call, count, descending=call.flag("descending"))


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
    op = TopKOperation.MAX if call.flag("descending") else TopKOperation.MIN
    return call.write.cast(ordered(call.write, x, axis, x.shape[axis], op)[1], call.out.dtype)


def _ordered(call: Call, count: Expr, *, descending: bool) -> Sequence[Value]:
    x, write = call.tensor("self"), call.write
    wanted = call.outputs[1]
    dtype = write.index if wanted is None else wanted.dtype
    if x.rank == 0:
        return [x, write.number(0, dtype)]
    op = TopKOperation.MAX if descending else TopKOperation.MIN
    values, indices = ordered(write, x, call.axis("dim", x.rank), count, op)
    return [values, write.cast(indices, dtype)]
