"""Variances and standard deviations."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert import Call, converter
from trtdiag.convert.layer_writers.reduction import precise, reduced
from trtdiag.network.layers.reduce import ReduceOperation as Fold
from trtdiag.network.value import Value
from trtdiag.shapes.shape_constraints import elements
from trtdiag.symbolic import Num, as_expr, sub


@converter
def variance(call: Call) -> Sequence[Value]:
    """aten::var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor
    aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor
    aten::var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor,
        Tensor)
    aten::std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor,
        Tensor)
    """
    # The mean of squared distances from the mean, over the count less the correction; and the mean.
    write, x = call.write, call.tensor("self")
    x = write.cast(x, precise(x.dtype))
    axes, keep = call.axes("dim", x.rank), call.flag("keepdim")
    mean = reduced(write, Fold.AVG, x, axes, keep_dims=True)
    distance = x - mean
    total = reduced(write, Fold.SUM, distance * distance, axes, keep)
    spread = total / _count(call, x, axes)
    if call.op_name.startswith("std"):
        spread = spread.sqrt()
    if not keep:
        mean = write.squeeze(mean, axes)
    dtypes = [want.dtype for want in call.outputs if want is not None]
    return write.cast(spread, dtypes[0]), write.cast(mean, dtypes[0])


def _count(call: Call, x: Value, axes: Sequence[int]) -> Value:
    """The elements less the correction, never below 0: PyTorch divides by 0 then."""
    write = call.write
    correction = call.number_or_none("correction")
    correction = 1 if correction is None else correction
    size = elements([x.shape[axis] for axis in axes])
    if isinstance(size, Num):
        return write.number(max(0.0, float(size.value) - float(correction)), x.dtype)
    if float(correction).is_integer():
        exact = write.sizes.real(sub(size, as_expr(int(correction))), x.dtype)
    else:
        exact = write.sizes.real(size, x.dtype) - write.number(correction, x.dtype, 1)
    return write.reshape(exact.maximum(write.number(0, x.dtype, 1)), [])
