"""Running sums and products."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.cumulative import over_earlier, running_sum
from trtdiag.convert.refusal import refuse
from trtdiag.convert.registry import converter
from trtdiag.network.builder import Value
from trtdiag.network.dtype import NUMBERS
from trtdiag.network.layers.reduce import ReduceOperation as Fold


@converter
def cumsum(call: Call) -> Value:
    """aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor

    TensorRT 8.6 has no layer for it: there every element is compared with every other along the dim.
    """
    x = _summand(call)
    return running_sum(call.write, x, call.axis("dim", x.rank)) if x.rank else x


@converter
def cumprod(call: Call) -> Value:
    """aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor

    Every element is compared with every other along the dim: TensorRT has running sums only.
    """
    x = _summand(call)
    return over_earlier(call.write, x, call.axis("dim", x.rank), Fold.PROD) if x.rank else x


def _summand(call: Call) -> Value:
    dtype = call.out.dtype
    if dtype not in NUMBERS:
        raise refuse("small-integers", f"it adds up in {dtype.value}, where sums wrap; no layer computes in it")
    return call.write.cast(call.tensor("self"), dtype)
