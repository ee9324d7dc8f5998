"""Sums, means and products over dims, and the greatest and least over several."""

from __future__ import annotations

from trtdiag.convert import Call, converter
from trtdiag.convert.layer_writers.reduction import is_empty, reduced, truths
from trtdiag.network import DType, Value
from trtdiag.network.layers.reduce import ReduceOperation as Fold


@converter
def reduction(call: Call) -> Value:
    """aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor
    aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
    aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor
    aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
    aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor
    aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
    aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor
    aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor
    aten::max(Tensor self) -> Tensor
    aten::min(Tensor self) -> Tensor
    aten::count_nonzero(Tensor self, int? dim=None) -> Tensor
    aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor
    """
    write, x, dtype, keep_dims = call.write, call.tensor("self"), call.out.dtype, call.flag("keepdim")
    name, axes = call.op_name, call.axes("dim", x.rank)
    fold = {"mean": Fold.AVG, "count_nonzero": Fold.SUM}.get(name) or Fold[name.removeprefix("a").upper()]
    x = truths(write, x) if name == "count_nonzero" else x
    if dtype is DType.BOOL and fold in (Fold.SUM, Fold.PROD):  # of truth values, whether any holds, whether all do
        fold = Fold.MAX if fold is Fold.SUM else Fold.MIN
        return write.cast(reduced(write, fold, truths(write, x), axes, keep_dims), dtype)
    return reduced(write, fold, write.cast(x, dtype), axes, keep_dims)  # PyTorch casts first, too


@converter
def truth(call: Call) -> Value:
    """aten::any(Tensor self) -> Tensor
    aten::any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor
    aten::any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor
    aten::all(Tensor self) -> Tensor
    aten::all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor
    aten::all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor
    """
    x, write, fold = call.tensor("self"), call.write, Fold.MAX if call.op_name == "any" else Fold.MIN
    axes = call.named_axes("dim", x.rank)
    if is_empty(x, axes):  # of none, none is true and all are
        return write.filled(call.out.shape, fold is Fold.MIN, call.out.dtype)
    found = reduced(write, fold, truths(write, x), axes, call.flag("keepdim"))
    # Of uint8, which is int32 here, PyTorch gives uint8.
    return write.cast(found, call.out.dtype)
