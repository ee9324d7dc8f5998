"""Elements folded by the place that each belongs to, in time that grows with their number: sorted by place first.

Equal places stand side by side then, and are folded by doubling: each element with the one before it, with the one two
before it, and so on.
"""

from __future__ import annotations

from trtdiag.convert.layer_writers.cost import amount_in_words, greatest
from trtdiag.convert.layer_writers.radix_sort import MOST_SORTED, in_order
from trtdiag.convert.layer_writers.reduction import neutral
from trtdiag.convert.layer_writers.scatter_update import overwritten
from trtdiag.convert.refusal import refuse
from trtdiag.convert.writer import Writer
from trtdiag.network import DType, Value
from trtdiag.network.layers import ElementWiseOperation as Op, ReduceOperation as Fold, SampleMode, ScatterMode
from trtdiag.symbolic import Expr, add

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
    key, order = in_order(write, write.select(key < 0, write.size_like(places, key), key), far)
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


def _moved(write: Writer, x: Value, by: int, fill: float) -> Value:
    """``x`` from the row ``by`` on, as many rows; ``fill`` where there is none."""
    start = [by] + [0] * (x.rank - 1)
    return write.slice(x, start, x.shape, [1] * x.rank, SampleMode.FILL, write.number(fill, x.dtype))


def _placed(write: Writer, at: Value, rows: Value, places: Expr, fill: float) -> Value:
    """Rows at their places, ``fill`` at the others; one place behind them takes what belongs to none."""
    there = write.filled([add(places, 1), rows.shape[1]], fill, rows.dtype)
    return write.part(overwritten(write, there, write.unsqueeze(at, [1]), rows, ScatterMode.ND), 0, 0, places)
