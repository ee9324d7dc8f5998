"""Running sums and products."""

from __future__ import annotations

from trtdiag.convert import Call, converter, refuse
from trtdiag.convert.layer_writers.reduction import over_earlier, running_sum
from trtdiag.network import NUMBERS, Value
from trtdiag.network.layers.reduce import ReduceOperation as Fold


@converter
def cumulated(call: Call) -> Value:
    """aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor

    TensorRT 8.6 has no layer for it: there every element is compared with every other along the dim.

    aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor

    Every element is compared with every other along the dim: TensorRT has running sums only.
    """
    write, dtype = call.write, call.out.dtype
    if dtype not in NUMBERS:
        raise refuse("small-integers", f"it adds up in {dtype.value}, where sums wrap; no layer computes in it")
    x = write.cast(call.tensor("self"), dtype)
    if not x.rank:
        return x
    axis = call.axis("dim", x.rank)
    return running_sum(write, x, axis) if call.op_name == "cumsum" else over_earlier(write, x, axis, Fold.PROD)
