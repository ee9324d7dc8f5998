"""Sums, means and products over dims, and the greatest and least over several."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.reduction import is_empty, reduced, truths
from trtdiag.convert.registry import converter, register
from trtdiag.network.builder import Value
from trtdiag.network.dtype import DType
from trtdiag.network.layers.reduce import ReduceOperation as Fold


def _total(call: Call, fold: Fold, *, keep_dims: bool = False) -> Value:
    """``fold`` in the dtype of the output, as PyTorch casts first."""
    x, dtype = call.tensor("self"), call.out.dtype
    axes = call.axes("dim", x.rank)
    if dtype is DType.BOOL:  # of truth values, the sum is whether any holds, the product whether all do
        fold = Fold.MAX if fold is Fold.SUM else Fold.MIN
        return call.write.cast(reduced(call.write, fold, truths(call.write, x), axes, keep_dims), dtype)
    return reduced(call.write, fold, call.write.cast(x, dtype), axes, keep_dims)


@converter
def sum_of_all(call: Call) -> Value:
    """aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return _total(call, Fold.SUM)


@converter
def sum_over_dims(call: Call) -> Value:
    """aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return _total(call, Fold.SUM, keep_dims=call.flag("keepdim"))


@converter
def product_of_all(call: Call) -> Value:
    """aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return _total(call, Fold.PROD)


@converter
def product_over_dim(call: Call) -> Value:
    """aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return _total(call, Fold.PROD, keep_dims=call.flag("keepdim"))


@converter
def mean_of_all(call: Call) -> Value:
    """aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return _mean(call, keep_dims=False)


@converter
def mean_over_dims(call: Call) -> Value:
    """aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return _mean(call, keep_dims=call.flag("keepdim"))


def _mean(call: Call, *, keep_dims: bool) -> Value:
    x = call.write.cast(call.tensor("self"), call.out.dtype)
    return reduced(call.write, Fold.AVG, x, call.axes("dim", x.rank), keep_dims)


def _extreme(fold: Fold, schema: str) -> None:
    def run(call: Call) -> Value:
        x = call.tensor("self")
        keep_dims = bool(call.arguments.get("keepdim", False))
        return reduced(call.write, fold, x, call.axes("dim", x.rank), keep_dims)

    register(schema, run)


_extreme(Fold.MAX, "aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor")
_extreme(Fold.MIN, "aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor")
_extreme(Fold.MAX, "aten::max(Tensor self) -> Tensor")
_extreme(Fold.MIN, "aten::min(Tensor self) -> Tensor")


@converter
def count_nonzero(call: Call) -> Value:
    """aten::count_nonzero(Tensor self, int? dim=None) -> Tensor"""
    return _count(call)


@converter
def count_nonzero_over_dims(call: Call) -> Value:
    """aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor"""
    return _count(call)


def _count(call: Call) -> Value:
    x = call.tensor("self")
    ones = call.write.cast(truths(call.write, x), call.out.dtype)
    return reduced(call.write, Fold.SUM, ones, call.axes("dim", x.rank))


def _truth(fold: Fold, schema: str) -> None:
    """Whether any (MAX) or all (MIN) elements are true; of none, none is and all are."""

    def run(call: Call) -> Value:
        x, write = call.tensor("self"), call.write
        # A list of no dims reduces nothing here, unlike in a sum.
        axes = () if call.arguments.get("dim") == [] else call.axes("dim", x.rank)
        if is_empty(x, axes):
            return write.filled(call.out.shape, fold is Fold.MIN, call.out.dtype)
        keep_dims = bool(call.arguments.get("keepdim", False))
        found = reduced(write, fold, truths(write, x), axes, keep_dims)
        # Of uint8, which is int32 here, PyTorch gives uint8.
        return write.cast(found, call.out.dtype)

    register(schema, run)


for _name, _fold in (("any", Fold.MAX), ("all", Fold.MIN)):
    _truth(_fold, f"aten::{_name}(Tensor self) -> Tensor")
    _truth(_fold, f"aten::{_name}.dim(Tensor self, int dim, bool keepdim=False) -> Tensor")
    _truth(_fold, f"aten::{_name}.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor")
