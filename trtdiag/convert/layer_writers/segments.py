"""Elements folded by the place that each belongs to, in time that grows with their number: sorted by place first.

The order is found digit by digit, as a radix sort does, with running counts; equal places stand side by side then, and
are folded by doubling: each element with the one before it, with the one two before it, and so on.
"""

from __future__ import annotations

import torch

from trtdiag.convert.layer_writers.cost import amount_in_words, greatest
from trtdiag.convert.layer_writers.cumulative import over_earlier
from trtdiag.convert.layer_writers.matmul import product
from trtdiag.convert.layer_writers.overwriting import overwritten
from trtdiag.convert.layer_writers.reduction import neutral
from trtdiag.convert.layer_writers.spatial_dims import reaching
from trtdiag.convert.refusal import refuse
from trtdiag.convert.writer import Writer
from trtdiag.network.dtype import DType
from trtdiag.network.layers.cumulative import Cumulative
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.reduce import ReduceOperation as Fold
from trtdiag.network.layers.scatter import ScatterMode
from trtdiag.network.layers.slice import SampleMode
from trtdiag.network.value import Value
from trtdiag.symbolic import Expr, Num, add, floordiv, mul

MOST_SORTED = 1 << 22
"""Own choice: elements that are sorted; the running counts of their digits are 16 times as many, 256 MiB in int32."""
_DIGITS = 16
"""Values of a digit: four bits in one go, where one bit would take four times as many layers."""
_BLOCK = 256
"""Elements whose running counts are one product with a triangle of ones, where there is no layer for them.  Counts of
blocks, which enter a second one, are at most as many: exact also in TF32."""
JOINED = {Fold.SUM: Op.SUM, Fold.PROD: Op.PROD, Fold.MAX: Op.MAX, Fold.MIN: Op.MIN}


def folded_in_order(
    write: Writer, index: Value, rows: Value, places: Expr, fold: Fold, *, count: bool = False
) -> tuple[Value, Value | None]:
    """For an index (m) and ``rows`` (m, r): the rows of each of ``places``, as (places, r), and how many, in int32.

    Rows of a negative index belong to none.

    Cost: some tens of passes over m elements, and one over the rows for each time that m doubles: a dozen layers for
    each four bits of a place, and five for each doubling.
    """
    length = index.shape[0]
    most = greatest(write, length)
    if most is None or most > MOST_SORTED:
        raise refuse(
            "pairs",
            f"it brings {amount_in_words(write, length)} elements to their places; {MOST_SORTED:,} is the most that is"
            " sorted for that",
            "declare smaller ranges of sizes, or leave the op to PyTorch",
        )
    far = greatest(write, add(places, 1))
    if far is None or not write.index.holds(far):
        raise refuse("pairs", f"it has {amount_in_words(write, places)} places, which no index counts")
    key = write.cast(index, write.index)
    key, order = _sorted(write, write.select(key < 0, write.size_like(places, key), key), far)
    made = write.gather(rows, order, 0)
    step = 1
    while step < most:
        own, other = write.unsqueeze(key, [1]), write.unsqueeze(_moved(write, key, -step, -1), [1])
        earlier = _moved(write, made, -step, neutral(fold, made.dtype))
        made = write.select(own.eq(other), write.elementwise(JOINED[fold], made, earlier), made)
        step *= 2
    last = write.select(key.eq(_moved(write, key, 1, -1)), write.size_like(places, key), key)
    folded = _placed(write, last, made, places, neutral(fold, made.dtype))
    if not count:
        return folded, None
    at = write.cast(write.unsqueeze(write.counting(length), [1]), DType.INT32)
    first = write.select(key.eq(_moved(write, key, -1, -1)), write.size_like(places, key), key)
    # Where there is none, -1 - 0 + 1.
    return folded, _placed(write, last, at, places, -1) - _placed(write, first, at, places, 0) + 1


def _sorted(write: Writer, key: Value, most: int) -> tuple[Value, Value]:
    """The keys, below ``most``, in order, and where each stood; equal ones keep their order."""
    order = write.counting(key.shape[0])
    digits = write.constant(torch.arange(_DIGITS, dtype=write.index.torch).reshape(1, _DIGITS))
    scale = 1
    while scale < most:
        rest = key // scale if scale > 1 else key
        digit = rest - rest // _DIGITS * _DIGITS
        hits = write.cast(write.unsqueeze(digit, [1]).eq(digits), DType.INT32)
        before = _running(write, hits)
        smaller = _exclusive(write, write.reduce(Fold.SUM, hits, [0], keep_dims=True))
        to = write.reduce(Fold.SUM, hits * (before + smaller - 1), [1])
        pair = write.concat([write.unsqueeze(x, [1]) for x in (key, order)], 1)
        nothing = write.filled(pair.shape, 0, pair.dtype)
        pair = overwritten(write, nothing, write.unsqueeze(to, [1]), pair, ScatterMode.ND)
        key, order = (write.squeeze(write.part(pair, 1, side, 1), [1]) for side in (0, 1))
        scale *= _DIGITS
    return key, order


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


def _moved(write: Writer, x: Value, by: int, fill: float) -> Value:
    """``x`` from the row ``by`` on, as many rows; ``fill`` where there is none."""
    start = [by] + [0] * (x.rank - 1)
    return write.slice(x, start, x.shape, [1] * x.rank, SampleMode.FILL, write.number(fill, x.dtype))


def _placed(write: Writer, at: Value, rows: Value, places: Expr, fill: float) -> Value:
    """Rows at their places, ``fill`` at the others; one place behind them takes what belongs to none."""
    there = write.filled([add(places, 1), rows.shape[1]], fill, rows.dtype)
    return write.part(overwritten(write, there, write.unsqueeze(at, [1]), rows, ScatterMode.ND), 0, 0, places)
