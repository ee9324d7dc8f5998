"""Whole numbers put in order digit by digit, as a radix sort does: running counts say where each one goes."""

from __future__ import annotations

import torch

from trtdiag.convert.layer_writers.cost import greatest
from trtdiag.convert.layer_writers.division import integer_quotient
from trtdiag.convert.layer_writers.matmul import product
from trtdiag.convert.layer_writers.reduction import over_earlier
from trtdiag.convert.layer_writers.scatter_update import overwritten
from trtdiag.convert.layer_writers.spatial_dims import reaching
from trtdiag.convert.writer import Writer
from trtdiag.network import DType, Value
from trtdiag.network.layers import Cumulative, Gather, GatherMode, ReduceOperation as Fold, ScatterMode
from trtdiag.symbolic import Num, add, floordiv, mul

MOST_SORTED = 1 << 22
"""Own choice: elements that are sorted; the running counts of their digits are 16 times as many, 256 MiB in int32."""
_BITS = 4
_DIGITS = 1 << _BITS
"""Values of a digit: four bits in one go, where one bit would take four times as many layers."""
_BLOCK = 256
"""Elements whose running counts are one product with a triangle of ones, where there is no layer for them.  Counts of
blocks, which enter a second one, are at most as many: exact also in TF32."""


def in_order(write: Writer, key: Value, below: int | None = None, *, descending: bool = False) -> tuple[Value, Value]:
    """Whole numbers (m) in order, and where each stood; equal ones keep their order.

    Args:
        write: Writes layers.
        key: The numbers, at most ``MOST_SORTED``.
        below: They are from 0 to below this; ``None``: any.
        descending: The greatest first.

    Cost: a dozen layers for each four bits, each over 16 numbers for an element.
    """
    order, rest = write.cast(write.counting(key.shape[0]), key.dtype), key
    digits = write.constant(torch.arange(_DIGITS, dtype=key.dtype.torch).reshape(1, _DIGITS))
    signed = below is None
    bits = key.dtype.torch.itemsize * 8 if below is None else max(1, (below - 1).bit_length())
    for place in range(0, bits, _BITS):
        last = place + _BITS >= bits
        if last:  # nothing is above it, and of numbers that may be negative it is from -8 to 7
            moved, digit = [order], rest + _DIGITS // 2 if signed else rest
        else:
            above = integer_quotient(write, rest, write.scalar(_DIGITS, rest), _DIGITS)
            moved, digit = [order, above], rest - above * _DIGITS
        digit = write.scalar(_DIGITS - 1, digit) - digit if descending else digit
        hits = write.cast(write.unsqueeze(digit, [1]).eq(digits), DType.INT32)
        before = _running(write, hits)
        smaller = _exclusive(write, write.reduce(Fold.SUM, hits, [0], keep_dims=True))
        to = write.reduce(Fold.SUM, hits * (before + smaller - 1), [1])
        rows = write.concat([write.unsqueeze(x, [1]) for x in moved], 1)
        nothing = write.filled(rows.shape, 0, rows.dtype)
        rows = overwritten(write, nothing, write.unsqueeze(to, [1]), rows, ScatterMode.ND)
        order, *above_it = (write.squeeze(write.part(rows, 1, column, 1), [1]) for column in range(len(moved)))
        rest = above_it[0] if above_it else rest
    places = write.cast(order, write.index)
    return write.add(Gather(GatherMode.DEFAULT, 0), key, places), places


def _running(write: Writer, hits: Value) -> Value:
    """The sums of (m, digits) down to each row, which it counts as well, in int32."""
    if "Cumulative" in write.target.layers:
        return write.add(Cumulative(0), hits)
    return write.cast(_by_blocks(write, write.cast(hits, DType.FLOAT32), 2), DType.INT32)


def _by_blocks(write: Writer, x: Value, levels: int) -> Value:
    """The same in float32, by products of blocks with a triangle of ones, and of their sums ``levels`` times."""
    length, width = x.shape
    most = greatest(write, length)
    assert most is not None
    if most <= _BLOCK or not levels:
        return over_earlier(write, x, 0, Fold.SUM)
    blocks = floordiv(add(length, Num(_BLOCK - 1)), Num(_BLOCK))
    filled = reaching(write, x, (0, 0), (mul(blocks, Num(_BLOCK)), width), 0.0)
    apart = write.reshape(filled, [blocks, _BLOCK, width])
    triangle = write.constant(torch.ones(1, _BLOCK, _BLOCK).tril())
    within = product(write, triangle, apart)
    sums = write.reduce(Fold.SUM, apart, [1])
    before = _by_blocks(write, sums, levels - 1) - sums
    made = write.reshape(within + write.unsqueeze(before, [1]), [mul(blocks, Num(_BLOCK)), width])
    return write.part(made, 0, 0, length)


def _exclusive(write: Writer, counts: Value) -> Value:
    """The sums of (1, digits) before each digit."""
    earlier = torch.ones(_DIGITS, _DIGITS, dtype=counts.dtype.torch).triu(1)
    terms = write.unsqueeze(counts, [2]) * write.constant(earlier.unsqueeze(0))
    return write.reduce(Fold.SUM, terms, [1])
