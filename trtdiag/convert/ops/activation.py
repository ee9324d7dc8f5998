"""Activations."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.registry import converter
from trtdiag.network.builder import Value
from trtdiag.network.layers.activation import ActivationType
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op


@converter
def relu(call: Call) -> Value:
    """aten::relu(Tensor self) -> Tensor"""
    x = call.tensor("self")
    if x.dtype.is_float:
        return call.write.activation(ActivationType.RELU, x)
    return call.write.elementwise(Op.MAX, x, call.write.scalar(0, x))
