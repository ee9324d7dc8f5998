"""Other shapes for the same elements."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.registry import converter
from trtdiag.network.builder import Value


@converter
def view(call: Call) -> Value:
    """aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)"""
    return call.write.reshape(call.tensor("self"), call.out.shape)


@converter
def reshape(call: Call) -> Value:
    """aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)"""
    return call.write.reshape(call.tensor("self"), call.out.shape)
