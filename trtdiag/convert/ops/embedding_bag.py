"""Bags of embeddings: rows of a table, by index, brought together by bag."""

from __future__ import annotations

from trtdiag.convert import Call, Writer, refuse
from trtdiag.convert.layer_writers.cost import require_few
from trtdiag.convert.layer_writers.elementary import at_most
from trtdiag.convert.layer_writers.indices import counted_from_the_front
from trtdiag.convert.layer_writers.scatter import folded_by_row
from trtdiag.convert.registry import Result, converter
from trtdiag.network import DType, Value
from trtdiag.network.layers.reduce import ReduceOperation as Fold
from trtdiag.symbolic import sub

_SUM, _MEAN, _MAX = 0, 1, 2


@converter
def embedding_bag(call: Call) -> Result:
    """aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0,
        bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) ->
        (Tensor, Tensor, Tensor, Tensor)
    aten::_embedding_bag_forward_only(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int
        mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1)
        -> (Tensor, Tensor, Tensor, Tensor)
    aten::embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool
        sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False) -> (Tensor, Tensor, Tensor,
        Tensor)
    aten::embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode,
        bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor,
        Tensor, Tensor)

    Only the first output is there; the others are for training.
    """
    write, table, index, offsets = call.write, call.tensor("weight"), call.tensor("indices"), call.tensor("offsets")
    if index.rank != 1:
        raise refuse("bags-by-row", "its indices have two dims, each row a bag; PyTorch flattens them before the op")
    bags = offsets.shape[0]
    rows = write.gather(table, counted_from_the_front(write, index, table.shape[0], call.held.get("indices")), 0)
    weights = call.tensor_or_none("per_sample_weights")
    if weights is not None:
        rows = rows * write.unsqueeze(weights, [1])
    bag = _bag_of(write, offsets, index)
    if call.flag("include_last_offset"):  # what follows the last offset is in no bag
        bags = sub(bags, 1)
    padding = call.integer("padding_idx") if call.has("padding_idx") else -1
    if padding >= 0:
        bag = write.select(index.eq(padding), -1, bag)
    elif call.has("padding_idx") and call.op_name == "embedding_bag":  # for the ops below it, -1 is none
        last = write.cast(write.sizes.element(table.shape[0]), index.dtype)
        bag = write.select(index.eq(last + padding), -1, bag)
    mode = call.integer("mode")
    wide = write.cast(rows, DType.FLOAT32)
    y, counts = folded_by_row(
        write, bag, wide, bags, Fold.MAX if mode == _MAX else Fold.SUM, count=mode in (_MAX, _MEAN)
    )
    if mode == _MAX and counts is not None:
        y = write.select(counts.eq(0), 0.0, y)
    elif counts is not None:  # of an empty bag 0
        y = y / write.cast(counts, DType.FLOAT32).maximum(1.0)
    return [write.cast(y, table.dtype), None, None, None]


def _bag_of(write: Writer, offsets: Value, index: Value) -> Value:
    """For each index its bag: how many offsets are at or before its place, less one."""
    require_few(write, [*offsets.shape, *index.shape], "comparing every bag with every index")
    places = write.cast(write.counting(index.shape[0]), offsets.dtype)
    begun = at_most(write, write.unsqueeze(offsets, [1]), write.unsqueeze(places, [0]))
    count = write.reduce(Fold.SUM, write.cast(begun, write.index), [0])
    return count - 1
