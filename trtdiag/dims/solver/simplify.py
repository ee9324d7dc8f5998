"""Joint conditions made simpler by what is known of each symbol alone.

A reshape records guards such as ``a * (b // (b // 8)) == 64`` with the same few quotients in all of them.  Where the
conditions on ``b`` alone make ``b // (b // 8)`` always 8, putting 8 there turns most joint conditions into conditions
on one symbol, which have an exact set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from trtdiag.dims.solver.solving import Sets
from trtdiag.symbolic import (
    Num,
    Range,
    Sym,
    evaluate_masked,
    free_symbols,
    transform,
)
from trtdiag.symbolic.expr import Condition, Expr

MOST_VALUES = 1 << 14  # of one symbol, so that a part is evaluated in well under a millisecond
MOST_PASSES = 4


def reduced(conditions: Sequence[Condition], ranges: Mapping[str, Range], sets: Sets) -> list[Condition]:
    """For each condition one that says the same wherever all conditions on single symbols hold."""
    current = list(conditions)
    for _ in range(MOST_PASSES):
        joint = [condition for condition in current if len(free_symbols(condition)) > 1]
        if not joint or sets.clock.out:
            break
        values = _values(current, joint, ranges, sets)
        constant = cache(partial(_constant, values))
        new = [
            transform(condition, constant) if len(free_symbols(condition)) > 1 else condition for condition in current
        ]
        if new == current:
            break
        current = new
    return current


def _values(
    conditions: Sequence[Condition], joint: Sequence[Condition], ranges: Mapping[str, Range], sets: Sets
) -> dict[str, npt.NDArray[np.int64]]:
    found: dict[str, npt.NDArray[np.int64]] = {}
    for name in sorted({symbol for condition in joint for symbol in free_symbols(condition)}):
        alone = [condition for condition in conditions if free_symbols(condition) == {name}]
        # Unsolved ones are ignored by the set, which is larger then: what is constant there is constant.
        allowed = sets.all(alone, name, ranges[name])[0].values
        count = allowed.count
        if count and count <= MOST_VALUES and (allowed.max or 0) < 1 << 62:
            found[name] = np.fromiter(allowed.members(MOST_VALUES), dtype=np.int64, count=count)
    return found


def _constant(values: Mapping[str, npt.NDArray[np.int64]], part: Expr) -> Expr | None:
    """The constant that a part of one symbol is over its allowed values; ``None`` where it is none."""
    symbols = free_symbols(part)
    if len(symbols) != 1 or isinstance(part, Sym):
        return None
    (name,) = symbols
    if name not in values:
        return None
    try:
        sizes, defined = evaluate_masked(part, {name: values[name]})
    except (ValueError, OverflowError):  # a fraction, or too large: left as it is
        return None
    first = int(sizes.flat[0])
    return Num(first) if bool(np.all(defined)) and bool(np.all(sizes == first)) else None
