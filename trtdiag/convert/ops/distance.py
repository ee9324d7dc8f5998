"""Distances between rows."""

from __future__ import annotations

import torch

from trtdiag.convert import Call, Writer, converter, refuse
from trtdiag.convert.layer_writers.compute_dtype import both
from trtdiag.convert.layer_writers.cost import amount_in_words, greatest
from trtdiag.convert.layer_writers.matmul import product, require_batch
from trtdiag.convert.layer_writers.reduction import vector_norm
from trtdiag.convert.reshape_writer import ONE
from trtdiag.network import DType, Value
from trtdiag.network.layers.reduce import ReduceOperation
from trtdiag.symbolic import Expr, Num

_BY_PRODUCTS = 25
"""Rows above which PyTorch computes Euclidean distances by a product of matrices, unless told otherwise."""


@converter
def cdist_forward(call: Call) -> Value:
    """aten::_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor

    Euclidean distances are computed by a product of matrices where PyTorch surely does so, else from differences.
    """
    write, left, right = call.write, call.tensor("x1"), call.tensor("x2")
    _require_floats(left)
    if left.shape[-1] == Num(0):
        raise refuse("empty", "its rows have no elements")
    p = float(call.number("p"))
    mode = call.number_or_none("compute_mode") or 0
    facts = write.builder.facts
    many = any(facts.at_least(x.shape[-2], _BY_PRODUCTS + 1) for x in (left, right))
    if p == 2 and (mode == 1 or (mode == 0 and many)):
        return _by_products(write, left, right)
    require_batch(write, left, right)
    a, b = write.unsqueeze(left, [left.rank - 1]), write.unsqueeze(right, [right.rank - 2])
    away = a - b
    return vector_norm(write, away, p, [away.rank - 1])


@converter
def pdist_forward(call: Call) -> Value:
    """aten::_pdist_forward(Tensor self, float p=2.) -> Tensor
    aten::pdist(Tensor self, float p=2.) -> Tensor

    With a dynamic number of rows it must be at most 23,170 where the target has no int64.
    """
    write, x = call.write, call.tensor("self")
    _require_floats(x)
    if isinstance(x.shape[0], Num):
        pairs = torch.combinations(torch.arange(int(x.shape[0].value)), 2).to(write.index.torch)
        sides = [write.constant(pairs[:, side].contiguous()) for side in (0, 1)]
    else:
        sides = _pairs(write, x.shape[0], call.out.shape[0])
    left, right = (write.gather(x, side, 0) for side in sides)
    return vector_norm(write, left - right, float(call.number("p")), [1])


def _pairs(write: Writer, rows: Expr, count: Expr) -> list[Value]:
    """The first and the second row of each of ``count`` pairs, in the order of ``torch.combinations``.

    The first rows follow from a square root in float32, which is off by one at most, and whole numbers say where.
    """
    most = greatest(write, rows)
    if not write.index.holds((2 * most - 1) ** 2 if most is not None else 1 << 62):
        raise refuse(
            "dynamic-pairs",
            f"its number of rows is {amount_in_words(write, rows)}, and the index of a pair takes its square",
            "declare a smaller range for it",
        )
    pair = write.counting(count)
    whole = write.size_like(rows, pair) * 2 - write.scalar(1, pair)

    def begins(row: Value) -> Value:
        """The number of pairs whose first row is before ``row``."""
        return row * (whole - row) // 2

    root = write.cast(whole * whole - pair * 8, DType.FLOAT32).maximum(0.0).sqrt()
    row = write.cast(((write.cast(whole, DType.FLOAT32) - root) * 0.5).floor(), write.index)
    row = row - write.cast(begins(row) > pair, write.index)
    row = row + write.cast(~(begins(row + 1) > pair), write.index)
    return [row, pair - begins(row) + row + 1]


@converter
def euclidean_dist(call: Call) -> Value:
    """aten::_euclidean_dist(Tensor x1, Tensor x2) -> Tensor"""
    left, right = call.tensor("x1"), call.tensor("x2")
    _require_floats(left)
    return _by_products(call.write, left, right)


@converter
def cosine_similarity(call: Call) -> Value:
    """aten::cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor

    Computed in float32; in float16 PyTorch rounds the default eps to 0, and gives NaN for a vector of zeros.
    """
    write = call.write
    left, right, dtype = both(call, "x1", "x2")
    _require_floats(left)
    left, right = (write.cast(x, DType.FLOAT32) for x in write.aligned(left, right))
    axis, eps = call.axis("dim", left.rank), float(call.number("eps"))
    # One that is repeated along the axis is as much longer.
    size = write.builder.facts.broadcast(left.shape[axis], right.shape[axis]) or ONE
    left, right = (write.broadcast_to(x, [*x.shape[:axis], size, *x.shape[axis + 1 :]]) for x in (left, right))

    def scaled(x: Value) -> Value:
        squares = write.reduce(ReduceOperation.SUM, x * x, [axis], keep_dims=True)
        return x / squares.sqrt().maximum(eps)

    return write.cast(write.reduce(ReduceOperation.SUM, scaled(left) * scaled(right), [axis]), dtype)


def _require_floats(x: Value) -> None:
    if not x.dtype.is_float:
        raise refuse("not-float", "it is of integers, and PyTorch has none of those")


def _by_products(write: Writer, left: Value, right: Value) -> Value:
    """The root of ``|a|^2 - 2 a b + |b|^2``, which is never below 0."""

    def squared(x: Value) -> Value:
        return write.reduce(ReduceOperation.SUM, x * x, [x.rank - 1], keep_dims=True)

    ours, theirs = squared(left), squared(right)
    theirs = write.permute(theirs, [*range(theirs.rank - 2), theirs.rank - 1, theirs.rank - 2])
    mixed = product(write, left, right, transposed=True)
    return (ours + mixed * -2.0 + theirs).maximum(0.0).sqrt()
