"""The first places of elements that are not zero, as many as are asked for: a size that no data decide."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from trtdiag.convert import Call, Writer, converter
from trtdiag.convert.layer_writers.nonzero import tensor_with_dims
from trtdiag.convert.layer_writers.reduction import running_sum
from trtdiag.convert.layer_writers.scatter_update import overwritten
from trtdiag.network import DType, Value
from trtdiag.network.layers.scatter import ScatterMode
from trtdiag.shapes.shape_constraints import elements
from trtdiag.symbolic import Expr


@converter
def nonzero_static(call: Call) -> Value:
    """aten::nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor

    A running count of what is not zero says where each place goes; nothing in it has a size from data.
    """
    write, x = call.write, tensor_with_dims(call, "self")
    most, fill = call.integer("size"), call.integer("fill_value")
    dtype = call.out.dtype
    if most == 0:
        return write.constant(torch.zeros(0, x.rank, dtype=dtype.torch))
    count = elements(x.shape)
    mask = write.reshape(write.cast(x, DType.BOOL), [count])
    taken = running_sum(write, write.cast(mask, write.index), 0)
    # The last slot takes all that is left over, and is cut off.
    last = write.scalar(most, taken)
    slot = write.select(mask, (taken - 1).minimum(last), last)
    none = write.constant(torch.full((most + 1,), -1, dtype=write.index.torch))
    filled = overwritten(write, none, slot, write.counting(count), ScatterMode.ELEMENT)
    flat = write.part(filled, 0, 0, most)
    missing = flat < 0
    columns = (write.select(missing, fill, column) for column in _unravelled(write, flat, x.shape))
    return write.cast(write.concat([write.unsqueeze(column, [1]) for column in columns], 1), dtype)


def _unravelled(write: Writer, flat: Value, shape: Sequence[Expr]) -> list[Value]:
    """The index along each dim for places counted through all of them."""
    found: list[Value] = []
    for axis in range(len(shape) - 1):
        behind = write.sizes.element(elements(shape[axis + 1 :]))
        found.append(flat // behind)
        flat = flat - found[-1] * behind
    return [*found, flat]
