"""Dims in another order."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.refusal import refuse
from trtdiag.convert.registry import converter
from trtdiag.network.builder import Value


@converter
def permute(call: Call) -> Value:
    """aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)
    aten::permute_copy(Tensor self, int[] dims) -> Tensor
    """
    x = call.tensor("self")
    return call.write.permute(x, [axis % x.rank for axis in call.integers("dims")])


@converter
def transpose(call: Call) -> Value:
    """aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)
    aten::transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor
    aten::swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)
    aten::swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)
    """
    _, one, other = call.arguments
    return _swapped(call, call.integer(one), call.integer(other))


@converter
def reverse(call: Call) -> Value:
    """aten::t(Tensor(a) self) -> Tensor(a)
    aten::numpy_T(Tensor(a) self) -> Tensor(a)
    aten::t_copy(Tensor self) -> Tensor
    """
    x = call.tensor("self")
    return call.write.permute(x, range(x.rank)[::-1])


@converter
def matrix_transpose(call: Call) -> Value:
    """aten::mT(Tensor(a) self) -> Tensor(a)
    aten::mH(Tensor(a) self) -> Tensor(a)
    aten::matrix_H(Tensor(a) self) -> Tensor(a)
    aten::adjoint(Tensor(a) self) -> Tensor(a)
    """
    return _swapped(call, -2, -1)  # networks hold no complex numbers, so that nothing is conjugated


@converter
def movedim(call: Call) -> Value:
    """aten::movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)
    aten::movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)
    aten::moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)
    aten::moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)
    """
    x = call.tensor("self")
    if not x.rank:
        return x
    source = [axis % x.rank for axis in call.integers("source")]
    goal = [axis % x.rank for axis in call.integers("destination")]
    others = iter(axis for axis in range(x.rank) if axis not in source)
    order = [source[goal.index(axis)] if axis in goal else next(others) for axis in range(x.rank)]
    return call.write.permute(x, order)


def _swapped(call: Call, one: int, other: int) -> Value:
    x = call.tensor("self")
    if not x.rank:
        return x
    order = list(range(x.rank))
    if not all(-x.rank <= axis < x.rank for axis in (one, other)):
        raise refuse("argument-kind", f"dims {one} and {other} are not both dims of a tensor of rank {x.rank}")
    order[one], order[other] = order[other], order[one]
    return call.write.permute(x, order)
