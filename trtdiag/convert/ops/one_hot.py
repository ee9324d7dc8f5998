"""Indices as rows of zeros and a one, and places in a sorted sequence."""

from __future__ import annotations

import torch

from trtdiag.convert import Call, converter, refuse
from trtdiag.convert.layer_writers.compute_dtype import promoted
from trtdiag.convert.layer_writers.cost import require_few
from trtdiag.convert.layer_writers.reduction import wide
from trtdiag.network.layers import Gather, GatherMode, OneHot, ReduceOperation as Fold
from trtdiag.network.value import Value


@converter
def one_hot(call: Call) -> Value:
    """aten::one_hot(Tensor self, int num_classes=-1) -> Tensor"""
    write, x, classes = call.write, call.tensor("self"), call.integer("num_classes")
    if classes < 0:
        raise refuse(
            "data-dependent-shape",
            "the number of classes is the greatest element, which is known only when it runs",
            "give num_classes",
        )
    dtype = call.out.dtype
    values = write.constant(torch.tensor([0, 1], dtype=dtype.torch))
    return write.add(OneHot(x.rank), x, values, write.number(classes, x.dtype))


@converter
def searchsorted(call: Call) -> Value:
    """aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str?
        side=None, Tensor? sorter=None) -> Tensor
    aten::searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str?
        side=None, Tensor? sorter=None) -> Tensor
    aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor
    aten::bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor

    Every value is compared with every boundary.
    """
    # How many elements of the sequence stand before each value: compared one by one.
    write = call.write
    sequence = "boundaries" if call.op_name == "bucketize" else "sorted_sequence"
    dtype = wide(promoted(call, sequence, "self"))
    ordered, wanted = write.cast(call.tensor(sequence), dtype), call.operand("self", dtype)
    if call.has("sorter"):
        ordered = write.add(Gather(GatherMode.ELEMENT, ordered.rank - 1), ordered, call.tensor("sorter"))
    right = call.flag("right") or call.arguments.get("side") == "right"
    if ordered.rank == 1:
        ordered = write.along(ordered, wanted.rank, wanted.rank + 1)
    else:
        ordered = write.unsqueeze(ordered, [ordered.rank - 1])
    wanted = write.unsqueeze(wanted, [wanted.rank])
    shape = (*wanted.shape[:-1], ordered.shape[-1])
    require_few(write, shape, "comparing every value with every boundary")
    # A NaN stands behind all: "not greater" is true of it.
    behind = ordered > wanted
    if not right:
        behind = behind | ordered.eq(wanted)
    ones = write.cast(~behind, write.index)
    return write.cast(write.reduce(Fold.SUM, ones, [ones.rank - 1]), call.out.dtype)
