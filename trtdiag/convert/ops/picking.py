"""Elements and slices by index."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.registry import converter
from trtdiag.convert.writer import Writer
from trtdiag.convert.writing.positions import common_shape, counted_from_the_front, with_dims
from trtdiag.network.builder import Value
from trtdiag.network.facts import product
from trtdiag.network.layers.gather import Gather, GatherMode
from trtdiag.symbolic import Expr, Num


def elements_along(write: Writer, x: Value, index: Value, axis: int) -> Value:
    """``out[i][j] = x[index[i][j]][j]`` for axis 0; the index may be smaller in the other dims."""
    for other, size in enumerate(index.shape):
        if other != axis and not write.builder.facts.equal(x.shape[other], size):
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
    if not call.has("dim"):
        x, index = _flat(write, x), _flat(write, index)
    axis = call.axis("dim", x.rank) if call.has("dim") else 0
    index = counted_from_the_front(write, index, x.shape[axis], call.content("indices"))
    others = common_shape(write, [_without(x, axis), _without(index, axis)])
    return elements_along(write, _widened(write, x, others, axis), _widened(write, index, others, axis), axis)


def _flat(write: Writer, x: Value) -> Value:
    return write.reshape(x, [product(x.shape)])


def _without(x: Value, axis: int) -> tuple[Expr, ...]:
    return tuple(size for other, size in enumerate(x.shape) if other != axis)


def _widened(write: Writer, x: Value, others: tuple[Expr, ...], axis: int) -> Value:
    return write.broadcast_to(x, [*others[:axis], x.shape[axis], *others[axis:]])


@converter
def take(call: Call) -> Value:
    """aten::take(Tensor self, Tensor index) -> Tensor"""
    write, x, index = call.write, _flat(call.write, call.tensor("self")), call.tensor("index")
    return write.gather(x, counted_from_the_front(write, index, x.shape[0], call.content("index")), 0)


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
