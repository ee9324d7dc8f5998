"""Dims in another order."""

from __future__ import annotations

from trtdiag.convert import Call, converter, refuse
from trtdiag.network.value import Value


@converter
def permute(call: Call) -> Value:
    """aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)
    aten::permute_copy(Tensor self, int[] dims) -> Tensor
    aten::t(Tensor(a) self) -> Tensor(a)
    aten::numpy_T(Tensor(a) self) -> Tensor(a)
    aten::t_copy(Tensor self) -> Tensor
    aten::movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)
    aten::movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)
    aten::moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)
    aten::moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)
    """
    x = call.tensor("self")
    if "dims" in call.arguments:
        order = [axis % x.rank for axis in call.integers("dims")]
    elif "source" in call.arguments and x.rank:
        source, goal = ([axis % x.rank for axis in call.integers(name)] for name in ("source", "destination"))
        others = iter(axis for axis in range(x.rank) if axis not in source)
        order = [source[goal.index(axis)] if axis in goal else next(others) for axis in range(x.rank)]
    else:
        order = list(range(x.rank))[::-1]
    return call.write.permute(x, order)


@converter
def transpose(call: Call) -> Value:
    """aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)
    aten::transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor
    aten::swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)
    aten::swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)
    aten::mT(Tensor(a) self) -> Tensor(a)
    aten::mH(Tensor(a) self) -> Tensor(a)
    aten::matrix_H(Tensor(a) self) -> Tensor(a)
    aten::adjoint(Tensor(a) self) -> Tensor(a)
    """
    x, (_, *named) = call.tensor("self"), call.arguments
    # Matrices where no dims are named; networks hold no complex numbers, so that nothing is conjugated.
    one, other = (call.integer(name) for name in named) if named else (-2, -1)
    if not x.rank:
        return x
    if not all(-x.rank <= axis < x.rank for axis in (one, other)):
        raise refuse("argument-kind", f"dims {one} and {other} are not both dims of a tensor of rank {x.rank}")
    order = list(range(x.rank))
    order[one], order[other] = order[other], order[one]
    return call.write.permute(x, order)
