"""Several tensors made one: cat and stack."""

from __future__ import annotations

from trtdiag.convert import Call, converter
from trtdiag.convert.layer_writers.rotary import turned_parts
from trtdiag.network.value import Value
from trtdiag.symbolic import Num


@converter
def cat(call: Call) -> Value:
    """aten::cat(Tensor[] tensors, int dim=0) -> Tensor
    aten::concat(Tensor[] tensors, int dim=0) -> Tensor
    aten::concatenate(Tensor[] tensors, int dim=0) -> Tensor
    """
    write, tensors = call.write, call.tensors("tensors")
    # A tensor of shape (0,) goes with any other: PyTorch keeps what was once the only empty tensor.
    shaped = [x for x in tensors if x.shape != (Num(0),)] or tensors[:1]
    axis = call.axis("dim", shaped[0].rank)
    filled = [x for x in shaped if x.shape[axis] != Num(0)] or shaped[:1]
    parts = [write.cast(x, call.out.dtype) for x in filled]
    turned = turned_parts(write, parts) if axis == shaped[0].rank - 1 else None
    return turned if turned is not None else write.concat(parts, axis)


@converter
def stack(call: Call) -> Value:
    """aten::stack(Tensor[] tensors, int dim=0) -> Tensor
    aten::_stack(Tensor[] tensors, int dim=0) -> Tensor
    """
    write, tensors = call.write, call.tensors("tensors")
    axis = call.axis("dim", tensors[0].rank + 1)
    return write.concat([write.unsqueeze(write.cast(x, call.out.dtype), [axis]) for x in tensors], axis)
