"""Sorting, the first in order, and the middle."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.topk import ordered
from trtdiag.convert.registry import converter, register
from trtdiag.network.builder import Value
from trtdiag.network.layers.topk import TopKOperation
from trtdiag.symbolic import Expr


@converter
def topk(call: Call) -> Sequence[Value]:
    """aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values,
    Tensor indices)

    Sorted also where that was not asked for; which of equal elements comes first is open, as in PyTorch.
    """
    return _ordered(call, call.size("k"), descending=call.flag("largest"))


_RESULTS = "(Tensor values, Tensor indices)"
_NOTES = "At most 3840 elements. The reference keeps the order of equal elements; TensorRT does not promise it."


def _sort(call: Call) -> Sequence[Value]:
    return _ordered(call, None, descending=call.flag("descending"))


def _argsort(call: Call) -> Value:
    x = call.tensor("self")
    if x.rank == 0:
        return call.write.number(0, call.out.dtype)
    axis = call.axis("dim", x.rank)
    indices = ordered(call.write, x, axis, x.shape[axis], _operation(descending=call.flag("descending")))[1]
    return call.write.cast(indices, call.out.dtype)


register(f"aten::sort(Tensor self, int dim=-1, bool descending=False) -> {_RESULTS}", _sort, _NOTES)
register(
    f"aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> {_RESULTS}", _sort, _NOTES
)
register("aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor", _argsort, _NOTES)
register(
    "aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor", _argsort, _NOTES
)


def _operation(*, descending: bool) -> TopKOperation:
    return TopKOperation.MAX if descending else TopKOperation.MIN


def _ordered(call: Call, k: Expr | None, *, descending: bool) -> Sequence[Value]:
    x, write = call.tensor("self"), call.write
    wanted = call.outputs[1]
    dtype = write.index if wanted is None else wanted.dtype
    if x.rank == 0:
        return [x, write.number(0, dtype)]
    axis = call.axis("dim", x.rank)
    count = x.shape[axis] if k is None else k
    values, indices = ordered(write, x, axis, count, _operation(descending=descending))
    return [values, write.cast(indices, dtype)]
