"""Indexing with tensors."""

from __future__ import annotations

from trtdiag.convert import Call, converter
from trtdiag.convert.layer_writers.selection import selection
from trtdiag.network.layers.gather import Gather, GatherMode
from trtdiag.network.value import Value


@converter
def index(call: Call) -> Value:
    """aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor
    aten::_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor

    The data decides how many elements a mask chooses; TensorRT 8.6 does not build that.
    """
    write, x = call.write, call.tensor("self")
    chosen = selection(call, x, result=call.out.shape)
    if len(chosen.axes) == 1:
        return write.gather(x, chosen.indices[0], chosen.axes[0])
    found = write.add(Gather(GatherMode.ND), write.permute(x, chosen.front), chosen.positions(write))
    return write.permute(found, chosen.result_order)
