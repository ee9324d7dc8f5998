"""The same elements in another shape: views, and dims of size 1 put in and taken out."""

from __future__ import annotations

from trtdiag.convert import Call, converter
from trtdiag.network.value import Value
from trtdiag.symbolic import Num


@converter
def reshape(call: Call) -> Value:
    """aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)
    aten::view_copy(Tensor self, SymInt[] size) -> Tensor
    aten::_unsafe_view(Tensor self, SymInt[] size) -> Tensor
    aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)
    aten::_reshape_copy(Tensor self, SymInt[] size) -> Tensor
    aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)
    aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)
    aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)
    aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)
    aten::unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)
    aten::ravel(Tensor(a) self) -> Tensor(a)
    """
    return call.write.reshape(call.tensor("self"), call.out.shape)  # strides are PyTorch's own affair


@converter
def unsqueeze(call: Call) -> Value:
    """aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)
    aten::unsqueeze_copy(Tensor self, int dim) -> Tensor
    """
    x = call.tensor("self")
    return call.write.unsqueeze(x, [call.axis("dim", x.rank + 1)])


@converter
def squeeze(call: Call) -> Value:
    """aten::squeeze(Tensor(a) self) -> Tensor(a)
    aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)
    aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)
    aten::squeeze_copy(Tensor self) -> Tensor
    aten::squeeze_copy.dim(Tensor self, int dim) -> Tensor
    aten::squeeze_copy.dims(Tensor self, int[] dim) -> Tensor
    """
    x, facts = call.tensor("self"), call.write.builder.facts
    axes = call.named_axes("dim", x.rank)
    # Only those of size 1 go; a dynamic dim is never 1 in an exported program.
    return call.write.squeeze(x, [axis for axis in axes if facts.equal(x.shape[axis], Num(1))])
