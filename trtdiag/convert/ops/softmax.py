"""Softmax and its logarithm."""

from __future__ import annotations

from trtdiag.convert import Call, converter, refuse
from trtdiag.network import DType, Value
from trtdiag.network.layers import ReduceOperation, SoftMax
from trtdiag.symbolic import Num


@converter
def softmax(call: Call) -> Value:
    """aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
    aten::special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
    aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor
    """
    write, x = call.write, _input(call)
    least = max(1, write.target.least_rank(SoftMax.__name__))
    if x.rank >= least:
        return write.add(SoftMax(call.axis("dim", x.rank)), x)
    # It has one dim or none, so what stands before it is one row.
    row = write.reshape(x, [*[1] * (least - x.rank), *x.shape])
    return write.reshape(write.add(SoftMax(least - 1), row), x.shape)


@converter
def log_softmax(call: Call) -> Value:
    """aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
    aten::special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor
    aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor
    """
    write = call.write
    x = write.cast(_input(call), DType.FLOAT32)
    if not x.rank:
        x = write.reshape(x, [1])
    axis = call.axis("dim", x.rank)
    if x.shape[axis] == Num(0):  # there is no greatest element, and no result either
        return write.cast(x, call.out.dtype)
    top = write.reduce(ReduceOperation.MAX, x, [axis], keep_dims=True)
    below = x - top
    sums = write.reduce(ReduceOperation.SUM, below.exp(), [axis], keep_dims=True)
    return write.cast(write.reshape(below - sums.log(), call.out.shape), call.out.dtype)


@converter
def safe_softmax(call: Call) -> Value:
    """aten::_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor

    Rows of -inf give 0.
    """
    write, x = call.write, _input(call)
    weights = softmax(call)
    top = write.reduce(ReduceOperation.MAX, x, [call.axis("dim", x.rank)], keep_dims=True) if x.rank else x
    return write.select(top.eq(float("-inf")), 0.0, weights)


def _input(call: Call) -> Value:
    """What PyTorch takes the exponentials of: the input in the output's dtype."""
    if not call.out.dtype.is_float:
        raise refuse("not-float", "it is of integers, and PyTorch has none of those")
    return call.write.cast(call.tensor("self"), call.out.dtype)
