"""Elements and slices by index."""

from __future__ import annotations

import torch

from trtdiag.convert import Call, Writer, converter
from trtdiag.convert.layer_writers.division import integer_rest
from trtdiag.convert.layer_writers.indices import common_shape, counted_from_the_front, with_dims
from trtdiag.network import INDICES, Value
from trtdiag.network.layers.gather import Gather, GatherMode
from trtdiag.shapes.shape_constraints import elements
from trtdiag.symbolic import Expr, Num, bounds


def elements_along(write: Writer, x: Value, index: Value, axis: int) -> Value:
    """``out[i][j] = x[index[i][j]][j]`` for axis 0; the index may be smaller in the other dims."""
    for other, size in enumerate(index.shape):
        if other != axis:
            x = write.part(x, other, 0, size)
    return write.add(Gather(GatherMode.ELEMENT, axis), x, index)


@converter
def gather(call: Call) -> Value:
    """aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"""
    write, x, index = call.write, call.tensor("self"), call.tensor("index")
    axis = call.axis("dim", x.rank)
    if any(size == Num(0) for size in index.shape):  # then even its rank may be another
        return write.filled(index.shape, 0, x.dtype)
    found = elements_along(write, with_dims(write, x), with_dims(write, index), axis)
    return write.reshape(found, index.shape)


@converter
def take_along_dim(call: Call) -> Value:
    """aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor"""
    write, x, index = call.write, call.tensor("self"), call.tensor("indices")
    if not call.has("dim"):  # then PyTorch takes no index beyond either end
        return elements_along(write, _flat(write, x), _flat(write, index), 0)
    axis = call.axis("dim", x.rank)
    index = _around(write, index, x.shape[axis], call.held.get("indices"))
    others = common_shape(write, [_without(x, axis), _without(index, axis)])
    return elements_along(write, _widened(write, x, others, axis), _widened(write, index, others, axis), axis)


def _around(write: Writer, index: Value, size: Expr, content: torch.Tensor | None) -> Value:
    """``index`` as PyTorch takes it here: beyond either end it goes on at the other, any number of times."""
    index = write.cast(index, index.dtype if index.dtype in INDICES else write.index)
    least = bounds(size, write.builder.facts.ranges).range.min or 0
    if content is not None and (content.numel() == 0 or (int(content.min()) >= 0 and int(content.max()) < least)):
        return index
    return integer_rest(write, index, write.size_like(size, index), None, floored=True)


def _flat(write: Writer, x: Value) -> Value:
    return write.reshape(x, [elements(x.shape)])


def _without(x: Value, axis: int) -> tuple[Expr, ...]:
    return tuple(size for other, size in enumerate(x.shape) if other != axis)


def _widened(write: Writer, x: Value, others: tuple[Expr, ...], axis: int) -> Value:
    return write.broadcast_to(x, [*others[:axis], x.shape[axis], *others[axis:]])


@converter
def take(call: Call) -> Value:
    """aten::take(Tensor self, Tensor index) -> Tensor"""
    write, x, index = call.write, _flat(call.write, call.tensor("self")), call.tensor("index")
    return write.gather(x, counted_from_the_front(write, index, x.shape[0], call.held.get("index")), 0)


@converter
def index_select(call: Call) -> Value:
    """aten::index_select(Tensor self, int dim, Tensor index) -> Tensor"""
    write, x, index = call.write, call.tensor("self"), call.tensor("index")
    found = write.gather(with_dims(write, x), with_dims(write, index), call.axis("dim", x.rank))
    return found if x.rank else write.reshape(found, [])


@converter
def embedding(call: Call) -> Value:
    """aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False,
    bool sparse=False) -> Tensor
    """
    return call.write.gather(call.tensor("weight"), call.tensor("indices"), 0)
