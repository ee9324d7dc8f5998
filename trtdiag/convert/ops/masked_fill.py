"""Values at the places of a mask."""

from __future__ import annotations

from trtdiag.convert import Call, converter
from trtdiag.convert.layer_writers.masked_values import in_turn, replaced
from trtdiag.convert.layer_writers.reduction import is_empty
from trtdiag.network import DType, Value
from trtdiag.shapes.shape_constraints import elements


@converter
def masked_scatter(call: Call) -> Value:
    """aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor

    A running count of the mask says which element of the source each place takes.
    """
    write, shape = call.write, call.out.shape
    x = write.broadcast_to(call.tensor("self"), shape)
    mask = write.broadcast_to(write.cast(call.tensor("mask"), DType.BOOL), shape)
    source = call.tensor("source")
    if is_empty(source, range(source.rank)):  # then the mask holds nowhere
        return x
    flat = write.reshape(mask, [elements(shape)])
    taken = in_turn(write, flat, write.reshape(source, [elements(source.shape)]))
    return replaced(write, x, mask, write.reshape(taken, shape))
