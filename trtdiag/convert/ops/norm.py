"""Norms of vectors, and logarithms of sums of exponentials."""

from __future__ import annotations

from trtdiag.convert import Call, converter
from trtdiag.convert.layer_writers.reduction import is_empty, precise, reduced, vector_norm
from trtdiag.network import FLOATS, DType, Value
from trtdiag.network.layers import ReduceOperation as Fold, UnaryOperation


@converter
def norm(call: Call) -> Value:
    """aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor
    aten::norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor
    aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor
    aten::norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor
    aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)
        -> Tensor
    """
    write, dtype = call.write, call.out.dtype
    given = call.number_or_none("ord" if call.op_name == "linalg_vector_norm" else "p")
    x = write.cast(write.cast(call.tensor("self"), dtype), precise(dtype))
    order = 2.0 if given is None else float(given)
    return write.cast(vector_norm(write, x, order, call.axes("dim", x.rank), call.flag("keepdim")), dtype)


@converter
def logsumexp(call: Call) -> Value:
    """aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor

    Less the greatest element before, so that nothing overflows.
    """
    write, dtype = call.write, call.out.dtype
    inner = precise(dtype) if dtype in FLOATS else DType.FLOAT32
    x = write.cast(call.tensor("self"), inner)
    axes, keep = call.axes("dim", x.rank), call.flag("keepdim")
    if is_empty(x, axes):
        return write.filled(call.out.shape, float("-inf"), dtype)
    most = reduced(write, Fold.MAX, x, axes, keep_dims=True)
    # Infinite ones are left in: infinity less infinity would be no number.
    finite = write.select(write.unary(UnaryOperation.ISINF, most), 0.0, most)
    total = reduced(write, Fold.SUM, (x - finite).exp(), axes, keep_dims=True)
    found = total.log() + finite
    return write.cast(found if keep else write.squeeze(found, axes), dtype)
