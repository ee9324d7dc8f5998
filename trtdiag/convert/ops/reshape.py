"""The same elements in another shape: views, and dims of size 1 put in and taken out."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.registry import converter, register
from trtdiag.network.builder import Value
from trtdiag.symbolic import Num

_VIEWS = (
    "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
    "aten::view_copy(Tensor self, SymInt[] size) -> Tensor",
    "aten::_unsafe_view(Tensor self, SymInt[] size) -> Tensor",
    "aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
    "aten::_reshape_copy(Tensor self, SymInt[] size) -> Tensor",
    "aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)",
    "aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)",
    "aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)",
    "aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)",
    "aten::unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)",
    "aten::ravel(Tensor(a) self) -> Tensor(a)",
)


def reshaped(call: Call) -> Value:
    """``self`` in the shape of the output; strides are PyTorch's own affair."""
    return call.write.reshape(call.tensor("self"), call.out.shape)


for _schema in _VIEWS:
    register(_schema, reshaped)


@converter
def unsqueeze(call: Call) -> Value:
    """aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)"""
    x = call.tensor("self")
    return call.write.unsqueeze(x, [call.axis("dim", x.rank + 1)])


register("aten::unsqueeze_copy(Tensor self, int dim) -> Tensor", unsqueeze)


@converter
def squeeze(call: Call) -> Value:
    """aten::squeeze(Tensor(a) self) -> Tensor(a)"""
    x = call.tensor("self")
    return _without(call, x, range(x.rank))


@converter
def squeeze_dim(call: Call) -> Value:
    """aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)"""
    x = call.tensor("self")
    return _without(call, x, [call.axis("dim", x.rank)] if x.rank else [])


@converter
def squeeze_dims(call: Call) -> Value:
    """aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)"""
    x = call.tensor("self")
    return _without(call, x, [axis % x.rank for axis in call.integers("dim")] if x.rank else [])


register("aten::squeeze_copy(Tensor self) -> Tensor", squeeze)
register("aten::squeeze_copy.dim(Tensor self, int dim) -> Tensor", squeeze_dim)
register("aten::squeeze_copy.dims(Tensor self, int[] dim) -> Tensor", squeeze_dims)


def _without(call: Call, x: Value, axes: range | list[int]) -> Value:
    """``x`` without those of ``axes`` that have size 1; a dynamic dim is never 1 in an exported program."""
    facts = call.write.builder.facts
    return call.write.squeeze(x, [axis for axis in axes if facts.equal(x.shape[axis], Num(1))])
