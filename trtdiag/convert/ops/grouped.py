"""Rows that belong to groups: each multiplied by the matrix of its group, and values counted by bins."""

from __future__ import annotations

from trtdiag.convert import Call, Writer, converter, refuse
from trtdiag.convert.layer_writers.cost import amount_in_words, greatest
from trtdiag.convert.layer_writers.matmul import product
from trtdiag.convert.layer_writers.reduction import running_sum
from trtdiag.convert.layer_writers.scatter import folded_by_element
from trtdiag.convert.layer_writers.scatter_update import overwritten
from trtdiag.network import DType, Value
from trtdiag.network.layers import ReduceOperation as Fold, ScatterMode
from trtdiag.shapes.shape_constraints import elements
from trtdiag.symbolic import Expr, Num, add, floordiv, mul

_BLOCK = 64
"""Own choice: rows of one group that are multiplied by its matrix at once; its last block is filled with zeros."""
MOST_WEIGHTS = 1 << 28
"""Own choice: elements of the matrices of all blocks, 1 GiB in float32."""


@converter
def grouped_products(call: Call) -> Value:
    """aten::_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) ->
        Tensor
    transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor

    Of rows in groups and a matrix for each. Each block of 64 rows takes a copy of its matrix, 1 GiB in all at most.
    """
    write = call.write
    rows, weight = (
        call.tensor(name) for name in (("input", "weight") if "input" in call.arguments else ("self", "mat2"))
    )
    if rows.rank != 2 or weight.rank != 3 or not call.has("offs"):
        raise refuse("groups-of-columns", "it multiplies other than rows in groups by a matrix for each")
    if call.has("bias") or call.has("out_dtype"):
        raise refuse("argument-kind", "it has a bias or a dtype of its own, which its kernels do not take either")
    ends = write.cast(call.tensor("offs"), write.index)
    count, groups = rows.shape[0], weight.shape[0]
    if not isinstance(groups, Num):
        raise refuse("dynamic-attribute", "how many groups it has is known only when the network runs")
    blocks = add(floordiv(add(count, _BLOCK - 1), _BLOCK), groups)
    copied = elements([blocks, *weight.shape[1:]])
    most = greatest(write, copied)
    if most is None or most > MOST_WEIGHTS:
        raise refuse(
            "grouped-weights",
            f"the matrices of its blocks have {amount_in_words(write, copied)} elements; {MOST_WEIGHTS:,} is the most",
            "declare a smaller range of sizes, or leave the op to PyTorch",
        )
    return write.cast(_in_blocks(write, rows, weight, ends, blocks), call.out.dtype)


def _in_blocks(write: Writer, rows: Value, weight: Value, ends: Value, blocks: Expr) -> Value:
    """Rows at the places of their blocks, one product for each of these, and the rows back from there."""
    count, groups, whole = rows.shape[0], int(weight.shape[0].value), mul(blocks, _BLOCK)  # type: ignore[union-attr]
    none = write.number(0, write.index, 1)
    starts = write.concat([none, write.part(ends, 0, 0, groups - 1)], 0) if groups > 1 else none
    own = (ends - starts + (_BLOCK - 1)) // _BLOCK
    last = running_sum(write, own, 0)
    shift = (last - own) * _BLOCK - starts
    row = write.counting(count)
    group = _before(write, ends, row)
    inside = group < groups
    to = row + write.gather(shift, group.minimum(groups - 1), 0)
    place = write.select(inside, to, write.size_like(whole, row))
    there = write.filled([add(whole, 1), rows.shape[1]], 0, rows.dtype)
    placed = overwritten(write, there, write.unsqueeze(place, [1]), rows, ScatterMode.ND)
    parts = write.reshape(write.part(placed, 0, 0, whole), [blocks, _BLOCK, rows.shape[1]])
    matrices = write.gather(weight, _before(write, last, write.counting(blocks)).minimum(groups - 1), 0)
    made = write.reshape(product(write, parts, matrices), [whole, weight.shape[2]])
    back = write.gather(made, write.select(inside, to, 0), 0)
    return write.select(write.unsqueeze(inside, [1]), back, 0.0)


def _before(write: Writer, ends: Value, index: Value) -> Value:
    """How many groups end at or before each index."""
    over = ~(write.unsqueeze(ends, [0]) > write.unsqueeze(index, [1]))
    return write.reduce(Fold.SUM, write.cast(over, write.index), [1])


@converter
def histc(call: Call) -> Value:
    """aten::histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor

    Refused where the least and the greatest element are the ends.
    """
    write, x = call.write, call.tensor("self")
    low, high, bins = float(call.number("min")), float(call.number("max")), call.integer("bins")
    if low >= high:
        raise refuse("data-dependent-ends", "its ends are those of the data", "give min and max")
    if not x.dtype.is_float:
        raise refuse("not-float", "it is of integers, and PyTorch's kernel for the CPU has none of those")
    flat = write.cast(write.reshape(x, [elements(x.shape)]), DType.FLOAT32)
    place = write.cast(((flat - low) * float(bins) / (high - low)).floor(), DType.INT32).minimum(bins - 1)
    inside = ((flat > low) | flat.eq(low)) & ((flat < high) | flat.eq(high))
    ones = write.filled(flat.shape, 1.0, DType.FLOAT32)
    index = write.cast(write.select(inside, place, -1), write.index)
    made, _ = folded_by_element(write, index, ones, Num(bins), Fold.SUM)
    return write.cast(made, call.out.dtype)
