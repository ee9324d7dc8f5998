"""Bags of embeddings: rows of a table, by index, brought together by bag."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.cost import require_few
from trtdiag.convert.layer_writers.elementary import at_most
from trtdiag.convert.layer_writers.indices import counted_from_the_front
from trtdiag.convert.layer_writers.scatter import WHY, folded_by_row
from trtdiag.convert.refusal import refuse
from trtdiag.convert.registry import Result, converter
from trtdiag.convert.writer import Writer
from trtdiag.network.dtype import DType
from trtdiag.network.layers.reduce import ReduceOperation as Fold
from trtdiag.network.value import Value
from trtdiag.symbolic import Expr, sub

_SUM, _MEAN, _MAX = 0, 1, 2


@converter
def embedding_bag(call: Call) -> Result:
    """aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0,
        bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) ->
        (Tensor, Tensor, Tensor, Tensor)
    aten::_embedding_bag_forward_only(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int
        mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1)
        -> (Tensor, Tensor, Tensor, Tensor)

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
    padding = call.integer("padding_idx")
    if padding >= 0:
        bag = write.select(index.eq(padding), -1, bag)
    mode = call.integer("mode")
    wide = write.cast(rows, DType.FLOAT32)
    y = folded_by_row(write, bag, wide, bags, Fold.MAX if mode == _MAX else Fold.SUM)
    if mode == _MAX:
        y = write.select(_counts(write, bag, bags).eq(0.0), 0.0, y)
    elif mode == _MEAN:  # of an empty bag 0
        y = y / _counts(write, bag, bags).maximum(1.0)
    return [write.cast(y, table.dtype), None, None, None]


def _bag_of(write: Writer, offsets: Value, index: Value) -> Value:
    """For each index its bag: how many offsets are at or before its place, less one."""
    require_few(write, [*offsets.shape, *index.shape], WHY)
    places = write.cast(write.counting(index.shape[0]), offsets.dtype)
    begun = at_most(write, write.unsqueeze(offsets, [1]), write.unsqueeze(places, [0]))
    count = write.reduce(Fold.SUM, write.cast(begun, write.index), [0])
    return count - 1


def _counts(write: Writer, bag: Value, bags: Expr) -> Value:
    """How many rows each bag has, as a column."""
    ones = write.filled([bag.shape[0], 1], 1.0, DType.FLOAT32)
    return folded_by_row(write, bag, ones, bags, Fold.SUM)
