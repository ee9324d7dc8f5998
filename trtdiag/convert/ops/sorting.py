"""Sorting, the first in order, and the middle."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert import Call, converter
from trtdiag.convert.layer_writers.topk import ordered, with_places
from trtdiag.network.layers.reduce import TopKOperation
from trtdiag.network.value import Value


@converter
def ordered_elements(call: Call) -> Sequence[Value]:
    """aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor
        indices)

    Sorted also where that was not asked for; which of equal elements comes first is open, as in PyTorch.

    aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)
    aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor
        indices)
    aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor
    aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor

    More than 3840 elements by comparing all with all, up to 16,384 in a row, or whole numbers in one dim by their
    digits. Else the reference keeps the order of equal elements, and TensorRT does not promise it.
    """
    write, k = call.write, call.size_or_none("k")
    op = TopKOperation.MAX if call.flag("largest") or call.flag("descending") else TopKOperation.MIN
    return with_places(call, lambda x, axis: ordered(write, x, axis, x.shape[axis] if k is None else k, op))
