"""Elements by a mask, and the places of elements that are not zero: as many as there are."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert import Call, converter, refuse
from trtdiag.convert.layer_writers.indices import common_shape
from trtdiag.convert.layer_writers.nonzero import tensor_with_dims, true_places
from trtdiag.network.value import Value
from trtdiag.shapes.shape_constraints import elements


@converter
def nonzero(call: Call) -> Value:
    """aten::nonzero(Tensor self) -> Tensor
    aten::argwhere(Tensor self) -> Tensor

    The data decides how many elements it finds; TensorRT 8.6 does not build that.
    """
    write, x = call.write, tensor_with_dims(call, "self")
    found = write.permute(true_places(write, x, call.out.shape[0]), [1, 0])
    return write.cast(found, call.out.dtype)


@converter
def nonzero_by_dim(call: Call) -> Sequence[Value]:
    """aten::nonzero_numpy(Tensor self) -> Tensor[]
    aten::where(Tensor condition) -> Tensor[]

    The data decides how many elements it finds; TensorRT 8.6 does not build that.
    """
    (name,) = call.arguments
    write, x = call.write, tensor_with_dims(call, name)
    out = next((each for each in call.outputs if each is not None), None)
    if out is None:
        raise refuse("output-unknown", "nothing reads its outputs")
    found = write.cast(true_places(write, x, out.shape[0]), out.dtype)
    return [write.reshape(write.part(found, 0, axis, 1), [out.shape[0]]) for axis in range(x.rank)]


@converter
def masked_select(call: Call) -> Value:
    """aten::masked_select(Tensor self, Tensor mask) -> Tensor

    The data decides how many elements it finds; TensorRT 8.6 does not build that.
    """
    write, x, mask = call.write, call.tensor("self"), call.tensor("mask")
    shape = common_shape(write, [x.shape, mask.shape])
    flat = [write.reshape(write.broadcast_to(each, shape), [elements(shape)]) for each in (x, mask)]
    return write.gather(flat[0], write.reshape(true_places(write, flat[1], call.out.shape[0]), call.out.shape), 0)
