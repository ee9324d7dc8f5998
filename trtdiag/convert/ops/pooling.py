"""Poolings with windows of a fixed size."""

from __future__ import annotations

from math import prod

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.pool_indices import with_indices
from trtdiag.convert.layer_writers.pooling import divisors, greatest, windows
from trtdiag.convert.refusal import refuse
from trtdiag.convert.registry import converter
from trtdiag.network.dtype import DType
from trtdiag.network.layers.pooling import PaddingMode, PoolingType
from trtdiag.network.value import Value


@converter
def max_pool(call: Call) -> list[Value]:
    """aten::max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool
        ceil_mode=False) -> Tensor
    aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool
        ceil_mode=False) -> Tensor
    aten::max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool
        ceil_mode=False) -> Tensor
    aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2]
        dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)
    aten::max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3]
        dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)
    """
    found = windows(call, call.dims)
    indices = call.outputs[1] if len(call.outputs) > 1 else None
    values = [greatest(found)] if indices is None else with_indices(found, indices.dtype)
    return [found.space.leave(value) for value in values]


@converter
def avg_pool(call: Call) -> Value:
    """aten::avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False,
        bool count_include_pad=True) -> Tensor
    aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool
        count_include_pad=True, int? divisor_override=None) -> Tensor
    aten::avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool
        count_include_pad=True, int? divisor_override=None) -> Tensor

    Integers are refused: PyTorch cuts their average off.
    """
    write, found = call.write, windows(call, call.dims)
    x = found.space.x
    if not x.dtype.is_float:
        raise refuse("integer-average", "the layer averages no integers", "compute the average in float32")
    override = call.number_or_none("divisor_override")
    includes = call.flag("count_include_pad")
    mode = found.rounding()
    # What lies beyond the padding counts in the layer, and not in PyTorch.
    counts_beyond = includes and mode is PaddingMode.EXPLICIT_ROUND_UP
    if mode is not None and override is None and not counts_beyond:
        return found.space.leave(write.add(found.layer(PoolingType.AVERAGE, mode, excludes=not includes), x))
    # The sum of a window is its average with all that is filled in, times the window's elements.
    whole = prod(found.window)
    filled = write.cast(found.filled(0), DType.FLOAT32)
    y = write.add(found.layer(PoolingType.AVERAGE, None), filled)
    y = y * float(whole)
    if override is not None:
        y = y / float(override)
    else:
        for count in divisors(found, includes_padding=includes):
            y = y / count
    return found.space.leave(write.cast(y, x.dtype))
