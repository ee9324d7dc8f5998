"""How the ops are written as layers of TensorRT."""

from __future__ import annotations

import acme_ops  # noqa: F401 - registers the ops
from trtdiag.converters import ActivationType, Call, ReduceOperation, UnaryOperation, Value, converter, refuse


@converter
def swiglu(call: Call) -> Value:
    """acme::swiglu(Tensor x, float limit=7.) -> Tensor

    The limit is a number of the engine.
    """
    x, write = call.tensor("x"), call.write
    last = x.rank - 1
    half = call.out.shape[last]  # an expression over the symbols of the program
    gate, value = (write.part(x, last, start, half) for start in (0, half))
    silu = gate * write.activation(ActivationType.SIGMOID, gate)
    return silu.minimum(call.number("limit")) * value


@converter
def masked_sum(call: Call) -> list[Value | None]:
    """acme::masked_sum(Tensor x, Tensor mask) -> (Tensor, Tensor)"""
    x, mask, write = call.tensor("x"), call.tensor("mask"), call.write
    if x.rank == 0:
        raise refuse("no-dims", "it sums over the last dim of a tensor that has none", "give it a dim")
    last = [x.rank - 1]
    total = write.reduce(ReduceOperation.SUM, write.select(mask, x, 0.0), last)
    counted = call.outputs[1]
    if counted is None:  # nobody reads it
        return [total, None]
    left_out = write.cast(write.unary(UnaryOperation.NOT, mask), counted.dtype)
    return [total, write.reduce(ReduceOperation.SUM, left_out, last)]
