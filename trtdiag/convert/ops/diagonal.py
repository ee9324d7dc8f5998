"""Diagonals and triangles of matrices."""

from __future__ import annotations

from trtdiag.convert import Call, Writer, converter
from trtdiag.convert.layer_writers.spatial_dims import reaching
from trtdiag.network.known_values import lesser
from trtdiag.network.layers import ElementWiseOperation as Op, ReduceOperation
from trtdiag.network.value import Value
from trtdiag.symbolic import Expr, add, mul


@converter
def triangle(call: Call) -> Value:
    """aten::tril(Tensor self, SymInt diagonal=0) -> Tensor
    aten::triu(Tensor self, SymInt diagonal=0) -> Tensor
    """
    write, x = call.write, call.tensor("self")
    # What is right of the diagonal goes, or what is left of it.
    op, beyond = (Op.LESS, 1) if call.op_name == "tril" else (Op.GREATER, -1)
    rows = write.unsqueeze(write.counting(x.shape[-2], add(call.size("diagonal"), beyond)), [1])
    columns = write.unsqueeze(write.counting(x.shape[-1]), [0])
    return write.select(write.elementwise(op, columns, rows), x, 0)


@converter
def diagonal(call: Call) -> Value:
    """aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)
    aten::diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor
    aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor
    aten::diag(Tensor self, int diagonal=0) -> Tensor
    """
    x, out = call.tensor("self"), call.out
    embeds = out.rank > x.rank
    if call.op_name == "diag":
        offset, axes = call.integer("diagonal"), [0, 1]
    else:
        rank = out.rank if embeds else x.rank
        offset, axes = call.integer("offset"), [call.axis(name, rank) for name in ("dim1", "dim2")]
    if embeds:
        return _embedded(call, x, offset, *axes)
    return _diagonal(call.write, x, offset, axes[0], axes[1], out.shape[-1])


@converter
def trace(call: Call) -> Value:
    """aten::trace(Tensor self) -> Tensor"""
    write, x = call.write, call.tensor("self")
    rows, columns = x.shape
    places = _diagonal(write, x, 0, 0, 1, lesser(rows, columns, write.builder.facts))
    return write.reduce(ReduceOperation.SUM, write.cast(places, call.out.dtype), [0])


def _diagonal(write: Writer, x: Value, offset: int, dim1: int, dim2: int, count: Expr) -> Value:
    """Every (columns + 1)-th element of the flattened matrix."""
    others = [axis for axis in range(x.rank) if axis not in (dim1, dim2)]
    matrices = write.permute(x, [*others, dim1, dim2])
    rows, columns = matrices.shape[-2:]
    first = mul(columns, -offset) if offset < 0 else offset
    flat = write.reshape(matrices, [*matrices.shape[:-2], mul(rows, columns)])
    places = write.counting(count, first, add(columns, 1))
    return write.gather(flat, places, flat.rank - 1)


def _embedded(call: Call, x: Value, offset: int, dim1: int, dim2: int) -> Value:
    """The elements where column = row + offset, in a matrix of zeros; dims ``dim1`` and ``dim2`` are the matrix."""
    write, size = call.write, call.out.shape[dim1]
    if offset:  # each element to its row
        x = reaching(write, x, [max(-offset, 0)], [size], 0)
    rows = write.unsqueeze(write.counting(size, offset), [1])
    on = write.unsqueeze(write.counting(size), [0]).eq(rows)
    matrices = write.select(on, write.unsqueeze(x, [x.rank]), write.scalar(0, x))
    others = iter(range(x.rank - 1))
    places = {dim1: x.rank - 1, dim2: x.rank}
    return write.permute(matrices, [places[axis] if axis in places else next(others) for axis in range(x.rank + 1)])
