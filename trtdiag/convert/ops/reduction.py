"""Sums, means and products over dims, and the greatest and least over several."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.reduction import is_empty, reduced, truths
from trtdiag.convert.registry import converter
from trtdiag.network.dtype import DType
from trtdiag.network.layers.reduce import ReduceOperation as Fold
from trtdiag.network.value import Value


@converter
def total(call: Call) -> Value:
    """aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor
    aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
    aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor
    aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
    aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor
    aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
    """
    fold = {"sum": Fold.SUM, "prod": Fold.PROD, "mean": Fold.AVG}[call.op_name]
    write, x, dtype, keep_dims = call.write, call.tensor("self"), call.out.dtype, call.flag("keepdim")
    axes = call.axes("dim", x.rank)
    if dtype is DType.BOOL:  # of truth values, the sum is whether any holds, the product whether all do
        fold = Fold.MAX if fold is Fold.SUM else Fold.MIN
        return write.cast(reduced(write, fold, truths(write, x), axes, keep_dims), dtype)
    return reduced(write, fold, write.cast(x, dtype), axes, keep_dims)  # PyTorch casts first, too


@converter
def extreme(call: Call) -> Value:
    """aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor
    aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor
    aten::max(Tensor self) -> Tensor
    aten::min(Tensor self) -> Tensor
    """
    x, fold = call.tensor("self"), Fold[call.op_name[-3:].upper()]
    return reduced(call.write, fold, x, call.axes("dim", x.rank), call.flag("keepdim"))


@converter
def count_nonzero(call: Call) -> Value:
    """aten::count_nonzero(Tensor self, int? dim=None) -> Tensor
    aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor
    """
    x = call.tensor("self")
    ones = call.write.cast(truths(call.write, x), call.out.dtype)
    return reduced(call.write, Fold.SUM, ones, call.axes("dim", x.rank))


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
